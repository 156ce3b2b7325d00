-- The calls of captures by place, for each trace and each run that has some: what several captures with as many calls differ in is NULL.
--
-- Where all calls name their kernels, as ROCm records them, captures of other kernels stand apart: `names` is a hash of these names.
CREATE OR REPLACE VIEW _captured_sources AS
WITH _named AS (
    SELECT
        trace_id,
        capture,
        CASE
            WHEN count(kernel) > 0 AND bool_and(kernel IS NOT NULL OR api_call LIKE '%Mem%') THEN hash(list(kernel ORDER BY position))
        END AS names
    FROM captured_calls
    GROUP BY ALL
),

_captured AS (
    SELECT c.*, n.names, c.trace_id AS source FROM captured_calls AS c INNER JOIN _named AS n USING (trace_id, capture)
    UNION ALL
    SELECT c.*, n.names, 'run ' || c.run FROM captured_calls AS c INNER JOIN _named AS n USING (trace_id, capture)
)

SELECT
    source,
    calls,
    names,
    position,
    count(*) AS captures,
    CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace_id) END AS capture_trace_id,
    CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace) END AS capture_trace,
    CASE WHEN count(DISTINCT coalesce(op, '')) = 1 THEN min(op) END AS op,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_id) END AS call_id,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_ordinal) END AS call_ordinal,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_kernels) END AS call_kernels,
    CASE WHEN count(DISTINCT coalesce(module, '')) = 1 THEN min(module) END AS module,
    CASE WHEN count(DISTINCT coalesce(python_line, '')) = 1 THEN min(python_line) END AS python_line,
    CASE WHEN count(*) = 1 THEN min(op_id) END AS op_id
FROM _captured
GROUP BY source, calls, names, position;
