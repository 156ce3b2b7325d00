-- Where most of some wall time belongs: the call of the host, the line of the user's code, the module and the operator with the largest sums of `wall_ns`,
-- each where it has at least a fifth of the whole; one row. Each is of the time that those before it in this order have, so that one sentence may name all of
-- them: they occur together. Where a call held up the host, the module of the launch after it says nothing, and being in no operator counts as one. `kernel`
-- stands alone. `source` names rows of the statement report_places.
CREATE OR REPLACE MACRO _main_place(source) AS TABLE
WITH _named AS (
    SELECT
        wall_ns,
        call,
        line,
        CASE WHEN call IS NULL THEN module END AS module,
        CASE WHEN call IS NULL THEN op ELSE coalesce(call_op, '') END AS op,
        short_name AS kernel
    FROM query_table(source)
),

_called AS (
    SELECT
        CASE WHEN 5 * max(ns) FILTER (call IS NOT NULL) >= sum(ns) THEN arg_min(call, (-ns, call)) FILTER (call IS NOT NULL) END AS call
    FROM (SELECT call, sum(wall_ns) AS ns FROM _named GROUP BY call)
),

_of_call AS (SELECT n.* EXCLUDE (call), c.call FROM _named AS n INNER JOIN _called AS c ON c.call IS NULL OR n.call = c.call),

_lined AS (
    SELECT
        CASE WHEN 5 * max(ns) FILTER (line IS NOT NULL) >= sum(ns) THEN arg_min(line, (-ns, line)) FILTER (line IS NOT NULL) END AS line
    FROM (SELECT line, sum(wall_ns) AS ns FROM _of_call GROUP BY line)
),

_of_line AS (SELECT n.* EXCLUDE (line), l.line FROM _of_call AS n INNER JOIN _lined AS l ON l.line IS NULL OR n.line = l.line),

_in_module AS (
    SELECT
        CASE WHEN 5 * max(ns) FILTER (module IS NOT NULL) >= sum(ns) THEN arg_min(module, (-ns, module)) FILTER (module IS NOT NULL) END AS module
    FROM (SELECT module, sum(wall_ns) AS ns FROM _of_line GROUP BY module)
),

_of_module AS (SELECT n.* EXCLUDE (module), m.module FROM _of_line AS n INNER JOIN _in_module AS m ON m.module IS NULL OR n.module = m.module),

_in_op AS (
    SELECT CASE WHEN 5 * max(ns) FILTER (op IS NOT NULL) >= sum(ns) THEN arg_min(op, (-ns, op)) FILTER (op IS NOT NULL) END AS op
    FROM (SELECT op, sum(wall_ns) AS ns FROM _of_module GROUP BY op)
),

_ran AS (
    SELECT CASE WHEN 5 * max(ns) FILTER (kernel IS NOT NULL) >= sum(ns) THEN arg_min(kernel, (-ns, kernel)) FILTER (kernel IS NOT NULL) END AS kernel
    FROM (SELECT kernel, sum(wall_ns) AS ns FROM _named GROUP BY kernel)
)

SELECT l.line, m.module, nullif(o.op, '') AS op, c.call, r.kernel
FROM _called AS c
CROSS JOIN _lined AS l
CROSS JOIN _in_module AS m
CROSS JOIN _in_op AS o
CROSS JOIN _ran AS r;
