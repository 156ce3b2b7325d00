-- Where most of some wall time belongs: the line of the user's code, the module, the operator and the call of the host with the largest sums of `wall_ns`,
-- each where it has at least a fifth of the whole; one row. Where a call held up the host, the module
-- of the launch after it says nothing. `source` names rows of the statement report_places.
CREATE OR REPLACE MACRO _main_place(source) AS TABLE
WITH _sums AS (
    SELECT 'line' AS what, line AS name, sum(wall_ns) AS ns FROM query_table(source) GROUP BY ALL
    UNION ALL
    SELECT 'module', CASE WHEN call IS NULL THEN module END, sum(wall_ns) FROM query_table(source) GROUP BY ALL
    UNION ALL
    SELECT 'op', CASE WHEN call IS NULL THEN op ELSE call_op END, sum(wall_ns) FROM query_table(source) GROUP BY ALL
    UNION ALL
    SELECT 'call', call, sum(wall_ns) FROM query_table(source) GROUP BY ALL
    UNION ALL
    SELECT 'kernel', short_name, sum(wall_ns) FROM query_table(source) GROUP BY ALL
),

_first AS (
    SELECT what, name
    FROM _sums
    WHERE name IS NOT NULL
    QUALIFY
        row_number() OVER (PARTITION BY what ORDER BY ns DESC, name) = 1
        AND 5 * ns >= (SELECT sum(wall_ns) FROM query_table(source))
)

SELECT
    max(name) FILTER (what = 'line') AS line,
    max(name) FILTER (what = 'module') AS module,
    max(name) FILTER (what = 'op') AS op,
    max(name) FILTER (what = 'call') AS call,
    max(name) FILTER (what = 'kernel') AS kernel
FROM _first;
