-- Which kernels of two sets of counters are the same (`_matched`, without operators), a row per kernel and trace of its side. A side is what
-- `_traces_named` finds (tools write a file per kernel or per section). Launches that another print holds, too, are those of the better one, with the
-- metrics of both.
CREATE OR REPLACE MACRO _profiled_matches(before_name, after_name) AS TABLE
WITH named_sides AS (
    SELECT 'before' AS side, trace_id FROM _traces_named(before_name)
    UNION ALL
    SELECT 'after' AS side, trace_id FROM _traces_named(after_name)
),

sides AS (
    SELECT DISTINCT n.side, coalesce(p.primary_trace_id, n.trace_id) AS trace_id
    FROM named_sides AS n
    LEFT JOIN (SELECT DISTINCT trace_id, primary_trace_id FROM launch_prints) AS p ON n.trace_id = p.trace_id
),

profiled AS (
    SELECT DISTINCT s.side, l.signature_id
    FROM launches AS l
    INNER JOIN sides AS s USING (trace_id)
    WHERE l.timing = 'profiled'
),

_named AS (
    SELECT p.side, p.signature_id, k.short_name, coalesce(k.match_name, k.name) AS match_name, NULL::VARCHAR AS op, k.kind
    FROM profiled AS p
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN kernel_names AS k USING (name_id)
)

SELECT m.row_key, m.matched_by, m.short_name AS kernel, m.side, m.signature_id, t.name AS trace, s.trace_id
FROM _matched('_named') AS m
INNER JOIN sides AS s ON m.side = s.side
INNER JOIN traces AS t ON s.trace_id = t.trace_id;
