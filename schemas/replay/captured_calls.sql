-- Launch calls that were recorded into a CUDA or HIP graph: between the begin and the end of a capture, on the thread that captures.
--
-- They ran nothing then; `graph_owners` finds the kernels that a launch of the graph ran for them. Calls on other threads, such as that of the backward
-- pass, are of the only capture that was open in their process then; where several were open, they are left out. In no order.
--
-- Columns:
--   trace_id, trace, run: as in kernels
--   capture BIGINT: api_index of the call that began the capture.
--   calls BIGINT: Calls of the capture.
--   position BIGINT: Which of them it is, from 0.
--   api_index: as in api_calls
--   api_call VARCHAR: Name of the call.
--   kernel VARCHAR: Kernel that the call names, which ROCm records.
--   op_id: as in api_calls
--   op VARCHAR: Operator around it.
--   call_id: as in ops
--   call_ordinal BIGINT: Which of the launch calls of the same operator call it is, from 0.
--   call_kernels BIGINT: How many launch calls that operator call made.
--   module, python_line: as in ops
-- Example:
--   SELECT trace, capture, position, api_call, op, module FROM captured_calls ORDER BY trace, capture, position LIMIT 10;
CREATE OR REPLACE VIEW captured_calls AS
WITH _inside AS (
    SELECT
        c.*,
        t.name AS trace,
        t.run,
        CASE WHEN contains(c.name, 'BeginCapture') THEN 1 WHEN contains(c.name, 'EndCapture') THEN -1 END AS step,
        last_value(step IGNORE NULLS) OVER thread = 1 AS is_own,
        sum(step) OVER process AS open,
        last_value(step IGNORE NULLS) OVER process AS last_step,
        last_value(CASE WHEN step = 1 THEN api_index END IGNORE NULLS) OVER thread AS own,
        last_value(CASE WHEN step = 1 THEN api_index END IGNORE NULLS) OVER process AS latest
    FROM api_calls AS c
    INNER JOIN traces AS t USING (trace_id)
    WHERE c.trace_id IN (SELECT trace_id FROM api_calls WHERE contains(name, 'BeginCapture'))
    WINDOW
        thread AS (PARTITION BY t.name, c.process, c.thread ORDER BY start_ns, api_index ROWS UNBOUNDED PRECEDING),
        process AS (PARTITION BY t.name, c.process ORDER BY start_ns, api_index ROWS UNBOUNDED PRECEDING)
),

_called AS (
    SELECT
        * EXCLUDE (step, is_own, open, last_step, own, latest),
        CASE WHEN is_own THEN own WHEN open = 1 AND last_step = 1 THEN latest END AS capture
    FROM _inside
    WHERE is_own OR open = 1
)

SELECT
    a.trace_id,
    a.trace,
    a.run,
    a.capture,
    count(*) OVER captured AS calls,
    row_number() OVER (captured ORDER BY a.start_ns, a.api_index) - 1 AS position,
    a.api_index,
    a.name AS api_call,
    CASE WHEN a.name NOT LIKE '%Mem%' THEN a.details END AS kernel,
    a.op_id,
    o.name AS op,
    o.call_id,
    CASE WHEN a.op_id IS NOT NULL THEN row_number() OVER (operator ORDER BY a.start_ns, a.api_index) - 1 END AS call_ordinal,
    CASE WHEN a.op_id IS NOT NULL THEN count(*) OVER operator END AS call_kernels,
    o.module,
    o.python_line
FROM _called AS a
LEFT JOIN ops AS o ON a.trace_id = o.trace_id AND a.op_id = o.op_id
WHERE
    a.capture IS NOT NULL
    AND regexp_matches(a.name, 'Launch(Cooperative)?Kernel|ModuleLaunch|^(cuda|cu|hip)Mem(cpy|set)')
    AND NOT EXISTS (SELECT 1 FROM launches AS l WHERE l.trace_id = a.trace_id AND l.api_index = a.api_index)
WINDOW
    captured AS (PARTITION BY a.trace, a.capture),
    operator AS (PARTITION BY a.trace, a.capture, a.op_id);
