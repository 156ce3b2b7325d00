-- The device on which the caching allocator had most reserved: what of it was in use at the peak, who held that, how often it gave memory back and asked anew, and
-- the calls that took. A trace says something of it where memory is short, is reserved without being used, or is asked for while the program runs.
WITH changes AS (
    SELECT *, lag(total_reserved_bytes) OVER (PARTITION BY process, device_type, device ORDER BY ts_ns, event_index) AS before_bytes
    FROM memory_events
    WHERE trace_id = (SELECT trace_id FROM traces WHERE name = $trace) AND device_type <> 'cpu' AND total_reserved_bytes IS NOT NULL AND ts_ns IS NOT NULL
),

most AS (
    SELECT
        trace_id,
        process,
        device_type,
        device,
        max(total_allocated_bytes) AS peak_bytes,
        arg_max(total_reserved_bytes, (total_allocated_bytes, -event_index)) AS reserved_bytes,
        max(total_reserved_bytes) AS most_bytes,
        count(*) FILTER (total_reserved_bytes < before_bytes) AS releases,
        max(before_bytes - total_reserved_bytes)::BIGINT AS released_bytes
    FROM changes
    GROUP BY ALL
    ORDER BY most_bytes DESC, process, device
    LIMIT 1
),

-- Of a program in iterations, what the first one asks for is there for the others.
begun AS (
    SELECT coalesce(min(launch_start_ns) FILTER (iteration > (SELECT min(iteration) FROM kernels WHERE trace = $trace)), min(launch_start_ns)) AS since_ns
    FROM kernels
    WHERE trace = $trace AND timing = 'timeline'
),

calls AS (
    SELECT
        count(*) FILTER (regexp_matches(name, '(?i)malloc|create')) AS mallocs,
        count(*) FILTER (NOT regexp_matches(name, '(?i)malloc|create')) AS frees,
        coalesce(sum(duration_ns), 0)::DOUBLE AS call_ns
    FROM api_calls
    WHERE
        trace_id = (SELECT trace_id FROM most)
        AND regexp_matches(name, '(?i)^(cuda|hip)(malloc|free)$|^(cu|hip)mem_?(create|release)')
        AND start_ns >= (SELECT since_ns FROM begun)
),

capacity AS (
    SELECT max(d.memory_bytes) AS memory_bytes FROM devices AS d INNER JOIN most AS m ON d.trace_id = m.trace_id AND d.device = m.device
),

span AS (SELECT any_value(span_ns) AS span_ns FROM found_wall),

said AS (
    SELECT
        m.*,
        c.*,
        d.memory_bytes,
        m.reserved_bytes - m.peak_bytes AS unused_bytes,
        -- What is unused costs nothing while there is enough.
        coalesce(5 * (m.reserved_bytes - m.peak_bytes) >= m.reserved_bytes AND 2 * m.most_bytes >= d.memory_bytes, false) AS is_fragmented,
        coalesce(10 * m.most_bytes >= 9 * d.memory_bytes, false) AS is_full,
        m.releases > 0 AND c.frees > 1 AS is_released,
        c.mallocs > 1 AND 100 * c.call_ns >= coalesce(s.span_ns, 0) AS is_asked
    FROM most AS m
    CROSS JOIN calls AS c
    CROSS JOIN capacity AS d
    CROSS JOIN span AS s
),

noted AS (FROM said WHERE is_fragmented OR is_full OR is_released OR is_asked),

held AS (
    SELECT coalesce(t.module, t.root_op, t.op) AS holder, sum(t.bytes)::BIGINT AS held_bytes
    FROM memory_timeline AS t
    INNER JOIN noted AS s ON t.trace_id = s.trace_id AND t.process IS NOT DISTINCT FROM s.process AND t.device_type = s.device_type AND t.device = s.device
    WHERE t.held_at_peak
    GROUP BY holder
    HAVING holder IS NOT NULL AND 10 * sum(t.bytes) >= any_value(s.peak_bytes)
    ORDER BY held_bytes DESC, holder
    LIMIT 1
)

SELECT
    NULL::DOUBLE AS at_stake_ns,
    s.call_ns AS rank_ns,
    s.call_ns,
    s.mallocs,
    s.frees,
    s.releases,
    s.released_bytes,
    s.peak_bytes,
    s.reserved_bytes,
    s.most_bytes,
    s.unused_bytes,
    s.memory_bytes,
    s.is_fragmented,
    s.is_full,
    s.is_released,
    s.is_asked,
    h.holder,
    h.held_bytes
FROM noted AS s
LEFT JOIN held AS h ON true;
