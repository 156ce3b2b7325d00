-- Where most of some wall time belongs: the line of the user's code, the module, the operator and the call of the host with the largest sums of `wall_ns`,
-- each where it has at least a fifth of the whole; one row. Where a call held up the host, the module
-- of the launch after it says nothing. `source` names rows of the statement report_places.
CREATE OR REPLACE MACRO _main_place(source) AS TABLE
WITH _named AS (
    SELECT
        wall_ns,
        unnest(['line', 'module', 'op', 'call', 'kernel']) AS what,
        unnest([line, CASE WHEN call IS NULL THEN module END, CASE WHEN call IS NULL THEN op ELSE call_op END, call, short_name]) AS name
    FROM query_table(source)
),

_sums AS (
    SELECT what, name, sum(wall_ns) AS ns, sum(sum(wall_ns)) OVER (PARTITION BY what) AS whole_ns FROM _named GROUP BY what, name
)

SELECT
    arg_min(name, (-ns, name)) FILTER (what = 'line') AS line,
    arg_min(name, (-ns, name)) FILTER (what = 'module') AS module,
    arg_min(name, (-ns, name)) FILTER (what = 'op') AS op,
    arg_min(name, (-ns, name)) FILTER (what = 'call') AS call,
    arg_min(name, (-ns, name)) FILTER (what = 'kernel') AS kernel
FROM _sums
WHERE name IS NOT NULL AND 5 * ns >= whole_ns;
