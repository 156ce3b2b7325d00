-- When no launch of a device ran, and what the host did meanwhile: one row per gap between two launches, in no order.
--
-- Causes are those of `wall_time_budget`: of a gap with several, the one that takes most of it.
--
-- Columns:
--   trace, device: as in kernels
--   at_ns BIGINT [ns]: gap_start_ns since the start of the first launch of the trace, where the timeline of the screens begins.
--   gap_start_ns BIGINT [ns]: When the last launch before it ended.
--   gap_end_ns BIGINT [ns]: When the next launch started.
--   gap_ns BIGINT [ns]: Length of the gap.
--   part VARCHAR: host (the GPU waited for it), queue (the next launch had been made) or unattributed.
--   cause VARCHAR: What of the part, as in wall_time_budget.
--   waiting_call VARCHAR: Call of the host that was open, or had held it up until then, where one is the cause.
--   is_carried BOOLEAN: Whether that call had ended: its cause is carried over, by rule 5 of docs/why.md. NULL without one.
--   launch_start_ns BIGINT [ns]: When the host began the next launch call.
--   host_late_ns BIGINT [ns]: How long after the start of the gap that was.
--   no_call_ns BIGINT [ns]: How long of that its thread was in no recorded call, in all: in Python or other work. NULL where the thread is not known.
--   call_before VARCHAR: Last call of that thread to end before it; NULL where none was in the second before the first gap or later.
--   call_after VARCHAR: The launch call.
--   previous VARCHAR: Short name of the launch that ended last before it.
--   next VARCHAR: Short name of the launch after.
--   next_op VARCHAR: Operator of the launch after.
--   next_line VARCHAR: Python line of the launch after, as python_line of kernels; NULL without stacks.
--   phase VARCHAR: Phase of the launch after.
-- Example:
--   SELECT trace, device, gap_ns, cause, waiting_call, previous, next FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 10;
CREATE OR REPLACE MACRO idle_gaps(source := 'kernels') AS TABLE
WITH _launched AS MATERIALIZED (
    SELECT
        trace_id,
        device,
        launch_index,
        short_name,
        op,
        phase,
        python_line,
        start_ns,
        launch_start_ns,
        api_index,
        -- One number for both: a window over pairs takes twice as long.
        arg_max(short_name, end_ns::HUGEINT * 1099511627776 + launch_index) OVER earlier AS previous
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    WINDOW earlier AS (
        PARTITION BY trace, device ORDER BY start_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

-- As recorded with the trace: a selection may lack its first launch.
_begun AS (
    SELECT l.trace_id, coalesce(any_value(t.launches_start_ns), min(l.start_ns)) AS first_ns
    FROM _launched AS l
    LEFT JOIN traces AS t USING (trace_id)
    GROUP BY l.trace_id
),

_causes AS (
    SELECT
        trace,
        trace_id,
        device,
        launch_index,
        part,
        cause,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(duration_ns) AS cause_ns,
        arg_max(call, duration_ns) AS call,
        arg_max(call_start_ns + call_ns <= start_ns, duration_ns) AS is_carried
    FROM _wall_pieces(source)
    WHERE part IN ('host', 'queue', 'unattributed')
    GROUP BY ALL
),

_gaps AS MATERIALIZED (
    SELECT
        trace,
        trace_id,
        device,
        launch_index,
        min(start_ns) AS gap_start_ns,
        max(end_ns) AS gap_end_ns,
        arg_max({'part': part, 'cause': cause, 'call': call, 'is_carried': is_carried}, (cause_ns, cause)) AS main
    FROM _causes
    GROUP BY trace, trace_id, device, launch_index
),

_bounds AS MATERIALIZED (
    SELECT trace_id, min(gap_start_ns) - 1000000000 AS first_ns, max(gap_end_ns) AS last_ns
    FROM _gaps
    GROUP BY trace_id
),

_calls AS MATERIALIZED (FROM _called_time('_bounds')),

_after AS (
    SELECT g.trace_id, g.device, g.launch_index, g.gap_start_ns, a.process, a.thread, a.name, a.start_ns
    FROM _gaps AS g
    INNER JOIN _launched AS l ON g.trace_id = l.trace_id AND g.device IS NOT DISTINCT FROM l.device AND g.launch_index = l.launch_index
    INNER JOIN api_calls AS a ON l.trace_id = a.trace_id AND l.api_index = a.api_index
),

_quiet AS (
    SELECT
        n.trace_id,
        n.device,
        n.launch_index,
        n.name AS call_after,
        CASE
            WHEN n.process IS NOT NULL AND n.thread IS NOT NULL
                THEN greatest(
                    0,
                    n.start_ns - n.gap_start_ns
                    - (coalesce(c.called_ns - greatest(0, c.until_ns - n.start_ns), 0) - coalesce(s.called_ns - greatest(0, s.until_ns - n.gap_start_ns), 0))
                )::BIGINT
        END AS no_call_ns,
        (c.ended & 1099511627775)::BIGINT AS before_index
    FROM _after AS n
    ASOF LEFT JOIN _calls AS c ON n.trace_id = c.trace_id AND n.process = c.process AND n.thread = c.thread AND n.start_ns > c.start_ns
    ASOF LEFT JOIN _calls AS s ON n.trace_id = s.trace_id AND n.process = s.process AND n.thread = s.thread AND n.gap_start_ns >= s.start_ns
)

SELECT
    g.trace,
    g.device,
    g.gap_start_ns - b.first_ns AS at_ns,
    g.gap_start_ns,
    g.gap_end_ns,
    g.gap_end_ns - g.gap_start_ns AS gap_ns,
    g.main.part,
    g.main.cause,
    g.main.call AS waiting_call,
    g.main.is_carried,
    l.launch_start_ns,
    CASE WHEN l.launch_start_ns IS NOT NULL THEN greatest(0, l.launch_start_ns - g.gap_start_ns) END AS host_late_ns,
    q.no_call_ns,
    a.name AS call_before,
    q.call_after,
    l.previous,
    l.short_name AS next,
    l.op AS next_op,
    l.python_line AS next_line,
    l.phase
FROM _gaps AS g
INNER JOIN _launched AS l ON g.trace_id = l.trace_id AND g.device IS NOT DISTINCT FROM l.device AND g.launch_index = l.launch_index
INNER JOIN _begun AS b ON g.trace_id = b.trace_id
LEFT JOIN _quiet AS q ON g.trace_id = q.trace_id AND g.device IS NOT DISTINCT FROM q.device AND g.launch_index = q.launch_index
LEFT JOIN api_calls AS a ON q.trace_id = a.trace_id AND q.before_index = a.api_index;
