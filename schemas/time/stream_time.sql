-- How long each stream of each device was busy.
--
-- Activities of one stream rarely overlap, but graph launches and copies may.
--
-- Columns:
--   trace, device, stream: as in kernels
--   n, start_ns, end_ns, span_ns, busy_ns, idle_ns, total_ns: as in gpu_time
-- Example:
--   SELECT trace, device, stream, n, busy_ns, idle_ns FROM stream_time();
CREATE OR REPLACE MACRO stream_time(source := 'kernels') AS TABLE
WITH _preceded AS (
    SELECT trace, device, stream, start_ns, end_ns, duration_ns, max(end_ns) OVER earlier AS last_end
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    WINDOW earlier AS (PARTITION BY trace, device, stream ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)

SELECT
    trace,
    device,
    stream,
    count(*) AS n,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    max(end_ns) - min(start_ns) AS span_ns,
    try_cast(sum(greatest(0, end_ns - greatest(start_ns, coalesce(last_end, start_ns)))) AS BIGINT) AS busy_ns,
    max(end_ns) - min(start_ns) - try_cast(sum(greatest(0, end_ns - greatest(start_ns, coalesce(last_end, start_ns)))) AS BIGINT) AS idle_ns,
    try_cast(sum(duration_ns) AS BIGINT) AS total_ns
FROM _preceded
GROUP BY trace, device, stream
ORDER BY trace, device, stream;
