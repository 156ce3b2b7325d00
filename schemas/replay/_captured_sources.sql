-- The calls of captures by place, for each trace, recording and run that has some: what several captures with as many calls differ in is NULL.
--
-- Where all calls name their kernels, as ROCm records them, captures of other kernels stand apart: `names` is a hash of these names. `kernels` are the
-- calls that launch kernels; `before` of them are before a call, which is the `memory`-th copy or fill behind these (0: a kernel) of `between`.
CREATE OR REPLACE VIEW _captured_sources AS
WITH _named AS (
    SELECT
        trace_id,
        capture,
        CASE
            WHEN count(kernel) > 0 AND bool_and(kernel IS NOT NULL OR api_call LIKE '%Mem%')
                THEN hash(list(kernel ORDER BY position) FILTER (kernel IS NOT NULL))
        END AS names
    FROM captured_calls
    GROUP BY ALL
),

_counted AS (
    SELECT
        c.*,
        n.names,
        api_call LIKE '%Mem%' AS is_memory,
        count(*) FILTER (NOT is_memory) OVER captured AS kernels,
        count(*) FILTER (NOT is_memory) OVER (captured ORDER BY position) - CASE WHEN is_memory THEN 0 ELSE 1 END AS before
    FROM captured_calls AS c
    INNER JOIN _named AS n USING (trace_id, capture)
    WINDOW captured AS (PARTITION BY c.trace_id, c.capture)
),

_placed AS (
    SELECT
        * EXCLUDE (is_memory),
        CASE WHEN is_memory THEN row_number() OVER (gap ORDER BY position) ELSE 0 END AS memory,
        CASE WHEN is_memory THEN count(*) OVER gap ELSE 0 END AS between
    FROM _counted
    WINDOW gap AS (PARTITION BY trace_id, capture, before, is_memory)
),

_captured AS (
    SELECT *, trace_id AS source FROM _placed
    UNION ALL
    SELECT p.*, r.source FROM _placed AS p INNER JOIN _recording_sources AS r ON p.trace_id = r.trace_id AND r.is_capture
    UNION ALL
    SELECT *, 'run ' || run FROM _placed WHERE trace_id NOT IN (SELECT r.trace_id FROM _recording_sources AS r WHERE r.is_capture)
)

SELECT
    source,
    calls,
    names,
    kernels,
    position,
    any_value(before) AS before,
    any_value(memory) AS memory,
    any_value(between) AS between,
    count(*) AS captures,
    CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace_id) END AS capture_trace_id,
    CASE WHEN count(DISTINCT trace_id) = 1 THEN min(trace) END AS capture_trace,
    CASE WHEN count(DISTINCT coalesce(op, '')) = 1 THEN min(op) END AS op,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_id) END AS call_id,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_ordinal) END AS call_ordinal,
    CASE WHEN count(DISTINCT coalesce(call_id, '')) = 1 THEN min(call_kernels) END AS call_kernels,
    CASE WHEN count(DISTINCT coalesce(module, '')) = 1 THEN min(module) END AS module,
    CASE WHEN count(DISTINCT coalesce(python_line, '')) = 1 THEN min(python_line) END AS python_line,
    CASE WHEN count(*) = 1 THEN min(op_id) END AS op_id,
    CASE WHEN count(*) = 1 THEN min(api_index) END AS capture_call
FROM _captured
GROUP BY source, calls, names, kernels, position;
