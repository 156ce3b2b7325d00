-- Which operator and module each kernel of a launched CUDA or HIP graph belongs to, by the recorded capture of the graph.
--
-- A launch of a graph runs its kernels, copies and fills in the order in which they were captured: in that of their node numbers, or of their starts where
-- all ran on one stream. A capture with as many launch calls is taken from the same trace, else from the same recording of kerneldb, else from a trace in
-- which a graph ran the same kernels with the same grids in the same order, else from a trace of the same run; not one whose calls name other kernels, as ROCm records them. Where several
-- captures fit and differ, what they differ in is NULL. Where none fits, the only one with as many kernels is taken: a fill of no bytes is called and is
-- none; copies and fills between two kernels then have a call where as many were called there. In no order.
--
-- Columns:
--   trace_id, trace, launch_index, name, duration_ns: as in kernels
--   graph_launch BIGINT: api_index of the call that launched the graph.
--   position BIGINT: Which of the activities of that launch it is, from 0.
--   op VARCHAR: Operator that was captured there.
--   call_id: as in ops
--   call_ordinal, call_kernels: as in captured_calls
--   module, python_line: as in ops
--   captures BIGINT: How many captures fit.
--   capture_trace_id VARCHAR: Trace of the capture; NULL where captures of several traces fit.
--   capture_trace VARCHAR: Name of that trace.
--   op_id BIGINT: The captured call of the operator, in ops of that trace; NULL where several captures fit.
--   capture_call BIGINT: The captured launch call, in api_calls of that trace; NULL where several captures fit.
--   confidence DOUBLE: How sure this is, 0 to 1.
--   evidence VARCHAR: What speaks for it.
-- Example:
--   SELECT trace, module, op, count(*) AS n, sum(duration_ns) AS total_ns FROM graph_owners GROUP BY ALL ORDER BY total_ns DESC;
CREATE OR REPLACE VIEW graph_owners AS
SELECT
    r.trace_id,
    r.trace,
    r.launch_index,
    r.name,
    r.duration_ns,
    r.graph_launch,
    r.position,
    c.op,
    c.call_id,
    c.call_ordinal,
    c.call_kernels,
    c.module,
    c.python_line,
    c.captures,
    c.capture_trace_id,
    c.capture_trace,
    c.op_id,
    c.capture_call,
    round(CASE WHEN w.way <= 2 THEN 0.99 WHEN w.way = 3 THEN 0.98 ELSE 0.9 END - w.doubt, 2)::DOUBLE AS confidence,
    format(
        'call {:,} of {:,}{} of {} in {}{}{}',
        c.position + 1,
        c.calls,
        CASE WHEN w.is_whole THEN '' ELSE format(', {:,} of which ran,', w.ran) END,
        CASE WHEN c.captures = 1 THEN 'the capture' ELSE c.captures || ' captures' END,
        coalesce(c.capture_trace, c.source),
        CASE w.way
            WHEN 2 THEN ', of the same recording'
            WHEN 3 THEN ', where a graph ran the same kernels in the same order'
            WHEN 4 THEN ', of the same run'
            ELSE ''
        END,
        CASE WHEN w.names IS NULL THEN '' ELSE '; its calls name the same kernels' END
    ) AS evidence
FROM _graph_activities AS r
INNER JOIN _graph_captures AS w ON r.trace_id = w.trace_id AND r.graph_launch = w.graph_launch
INNER JOIN
    _captured_sources AS c
    ON
        w.source = c.source
        AND w.calls = c.calls
        AND w.kernels = c.kernels
        AND w.names IS NOT DISTINCT FROM c.names
        AND CASE
            WHEN w.is_whole THEN r.position = c.position
            ELSE r.before = c.before AND r.memory = c.memory AND r.between = c.between
        END;
