-- Where the time of each device went: computing, communicating, copying, or nothing at all.
--
-- Times are lengths of unions of intervals: what runs beside something else counts once. Exposed is what no computation hides (of copies: neither
-- computation nor communication). Fills (memset) count as computation, as in TraceLens' gpu_timeline.
--
-- Columns:
--   trace, device: as in kernels
--   n BIGINT: Number of activities.
--   start_ns BIGINT [ns]: Start of the first activity.
--   end_ns BIGINT [ns]: End of the last activity.
--   span_ns BIGINT [ns]: end_ns − start_ns.
--   busy_ns BIGINT [ns]: Time in which something ran.
--   idle_ns BIGINT [ns]: span_ns − busy_ns.
--   busy_pct DOUBLE [%]: busy_ns as a share of span_ns.
--   total_ns BIGINT [ns]: Sum of durations of all activities.
--   kernel_ns BIGINT [ns]: Sum of durations of kernels.
--   overlap_ns BIGINT [ns]: total_ns − busy_ns: what ran beside something else.
--   computation_ns BIGINT [ns]: Time in which something ran that neither communicates nor copies.
--   total_communication_ns BIGINT [ns]: Time in which a communication kernel ran.
--   exposed_communication_ns BIGINT [ns]: Part of it in which no computation ran.
--   total_memcpy_ns BIGINT [ns]: Time in which a copy ran.
--   exposed_memcpy_ns BIGINT [ns]: Time of copies in which neither computation nor communication ran.
-- Example:
--   SELECT trace, device, span_ns, busy_pct, computation_ns, exposed_communication_ns, exposed_memcpy_ns FROM gpu_time();
CREATE OR REPLACE MACRO gpu_time(source := 'kernels') AS TABLE
SELECT
    trace,
    device,
    n,
    start_ns,
    end_ns,
    end_ns - start_ns AS span_ns,
    busy_ns,
    end_ns - start_ns - busy_ns AS idle_ns,
    100::DOUBLE * busy_ns / nullif(end_ns - start_ns, 0) AS busy_pct,
    total_ns,
    kernel_ns,
    total_ns - busy_ns AS overlap_ns,
    computation_ns,
    communication_ns AS total_communication_ns,
    computation_or_communication_ns - computation_ns AS exposed_communication_ns,
    copy_ns AS total_memcpy_ns,
    busy_ns - computation_or_communication_ns AS exposed_memcpy_ns
FROM _time_unions(source)
ORDER BY trace, device;
