-- Where the time of each stream of each trace went.
--
-- gpu_time per stream. Activities of one stream rarely overlap, but graph launches and copies may.
--
-- Columns:
--   trace, device, stream: as in kernels
--   n BIGINT: Number of activities.
--   start_ns BIGINT [ns]: Start of the first activity.
--   end_ns BIGINT [ns]: End of the last activity.
--   span_ns BIGINT [ns]: end_ns − start_ns.
--   busy_ns BIGINT [ns]: Time in which something ran (union of intervals).
--   idle_ns BIGINT [ns]: span_ns − busy_ns.
--   total_ns BIGINT [ns]: Sum of durations of all activities.
CREATE OR REPLACE MACRO stream_time(source := 'kernels') AS TABLE
WITH preceded AS (
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
FROM preceded
GROUP BY trace, device, stream
ORDER BY trace, device, stream;
