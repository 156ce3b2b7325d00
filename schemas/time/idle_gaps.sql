-- When no launch of a device ran, and what the host did meanwhile: one row per gap between two launches, in no order.
--
-- Causes are those of `wall_time_budget`: of a gap with several, the one that takes most of it.
--
-- Columns:
--   trace, device: as in kernels
--   gap_start_ns BIGINT [ns]: When the last launch before it ended.
--   gap_end_ns BIGINT [ns]: When the next launch started.
--   gap_ns BIGINT [ns]: Length of the gap.
--   part VARCHAR: host (the GPU waited for it), queue (the next launch had been made) or unattributed.
--   cause VARCHAR: What of the part, as in wall_time_budget.
--   waiting_call VARCHAR: Call of the host that was open, or had held it up until then, where one is the cause.
--   launch_start_ns BIGINT [ns]: When the host began the next launch call.
--   host_late_ns BIGINT [ns]: How long after the start of the gap that was.
--   previous VARCHAR: Short name of the launch that ended last before it.
--   next VARCHAR: Short name of the launch after.
--   next_op VARCHAR: Operator of the launch after.
--   phase VARCHAR: Phase of the launch after.
-- Example:
--   SELECT trace, device, gap_ns, cause, waiting_call, previous, next FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 10;
CREATE OR REPLACE MACRO idle_gaps(source := 'kernels') AS TABLE
WITH _launched AS (
    SELECT
        trace_id,
        device,
        launch_index,
        short_name,
        op,
        phase,
        launch_start_ns,
        -- One number for both: a window over pairs takes twice as long.
        arg_max(short_name, end_ns::HUGEINT * 1099511627776 + launch_index) OVER earlier AS previous
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    WINDOW earlier AS (
        PARTITION BY trace, device ORDER BY start_ns, launch_index ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
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
        arg_max(call, duration_ns) AS call
    FROM _wall_pieces(source)
    WHERE part IN ('host', 'queue', 'unattributed')
    GROUP BY ALL
),

_gaps AS (
    SELECT
        trace,
        trace_id,
        device,
        launch_index,
        min(start_ns) AS gap_start_ns,
        max(end_ns) AS gap_end_ns,
        arg_max({'part': part, 'cause': cause, 'call': call}, (cause_ns, cause)) AS main
    FROM _causes
    GROUP BY trace, trace_id, device, launch_index
)

SELECT
    g.trace,
    g.device,
    g.gap_start_ns,
    g.gap_end_ns,
    g.gap_end_ns - g.gap_start_ns AS gap_ns,
    g.main.part,
    g.main.cause,
    g.main.call AS waiting_call,
    l.launch_start_ns,
    CASE WHEN l.launch_start_ns IS NOT NULL THEN greatest(0, l.launch_start_ns - g.gap_start_ns) END AS host_late_ns,
    l.previous,
    l.short_name AS next,
    l.op AS next_op,
    l.phase
FROM _gaps AS g
INNER JOIN _launched AS l ON g.trace_id = l.trace_id AND g.device IS NOT DISTINCT FROM l.device AND g.launch_index = l.launch_index;
