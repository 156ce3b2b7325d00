-- What launching costs the host, by launch call.
--
-- A host that launches one by one cannot keep the GPU busy with kernels that run shorter than the call that launched them.
--
-- Columns:
--   trace: as in kernels
--   api_call VARCHAR: Launch call of the runtime or driver.
--   n: as in kernel_rollups
--   call_ns BIGINT [ns]: Time that the host spent in these calls.
--   median_call_ns DOUBLE [ns]: Median duration of a call.
--   p95_call_ns DOUBLE [ns]: 95th percentile of the duration of a call.
--   median_delay_ns DOUBLE [ns]: Median time from the start of the call to the start on the GPU.
--   p95_delay_ns DOUBLE [ns]: 95th percentile of that time.
--   median_kernel_ns DOUBLE [ns]: Median duration on the GPU.
--   shorter_than_call BIGINT: Launches that ran shorter than their call.
--   shorter_than_call_pct DOUBLE [%]: Share of these.
-- Example:
--   SELECT trace, api_call, n, median_call_ns, median_delay_ns, shorter_than_call_pct FROM launch_overhead();
CREATE OR REPLACE MACRO launch_overhead(source := 'kernels') AS TABLE
SELECT
    trace,
    api_call,
    count(*) AS n,
    try_cast(sum(launch_duration_ns) AS BIGINT) AS call_ns,
    median(launch_duration_ns) AS median_call_ns,
    quantile_cont(launch_duration_ns, 0.95) AS p95_call_ns,
    median(start_ns - launch_start_ns) AS median_delay_ns,
    quantile_cont(start_ns - launch_start_ns, 0.95) AS p95_delay_ns,
    median(duration_ns) AS median_kernel_ns,
    count(*) FILTER (duration_ns < launch_duration_ns) AS shorter_than_call,
    100 * count(*) FILTER (duration_ns < launch_duration_ns) / count(*) AS shorter_than_call_pct
FROM query_table(source)
WHERE timing = 'timeline' AND api_call IS NOT NULL AND launch_duration_ns IS NOT NULL
GROUP BY trace, api_call
ORDER BY call_ns DESC, trace, api_call;
