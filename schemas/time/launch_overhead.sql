-- What launching costs the host, by launch call.
--
-- A host that launches one by one cannot keep the GPU busy with kernels that run shorter than the call that launched them. The call that launches a
-- graph counts once, however many kernels the graph has, and is compared with all of them together.
--
-- Columns:
--   trace: as in kernels
--   api_call VARCHAR: Launch call of the runtime or driver.
--   n: as in kernel_rollups
--   call_ns BIGINT [ns]: Time that the host spent in these calls.
--   median_call_ns DOUBLE [ns]: Median duration of a call.
--   p95_call_ns DOUBLE [ns]: 95th percentile of the duration of a call.
--   median_delay_ns DOUBLE [ns]: Median time from the start of the call to the start of its first launch on the GPU.
--   p95_delay_ns DOUBLE [ns]: 95th percentile of that time.
--   median_kernel_ns DOUBLE [ns]: Median duration of a launch on the GPU.
--   shorter_than_call BIGINT: Calls that took longer than what they launched.
--   shorter_than_call_pct DOUBLE [%]: Share of the calls that took longer than what they launched.
--   calls BIGINT: Number of launch calls, the whole of `shorter_than_call_pct`.
-- Example:
--   SELECT trace, api_call, n, median_call_ns, median_delay_ns, shorter_than_call_pct FROM launch_overhead();
CREATE OR REPLACE MACRO launch_overhead(source := 'kernels') AS TABLE
WITH _chosen AS (
    SELECT *
    FROM query_table(source)
    WHERE timing = 'timeline' AND api_call IS NOT NULL AND launch_duration_ns IS NOT NULL
),

_calls AS (
    SELECT
        trace,
        api_call,
        coalesce(api_index, -1 - launch_index) AS call,
        count(*) AS n,
        any_value(launch_duration_ns) AS call_ns,
        min(start_ns) - any_value(launch_start_ns) AS delay_ns,
        sum(duration_ns) AS gpu_ns
    FROM _chosen
    GROUP BY trace, api_call, call
),

_launches AS (
    SELECT trace, api_call, median(duration_ns) AS median_kernel_ns FROM _chosen GROUP BY trace, api_call
)

SELECT
    c.trace,
    c.api_call,
    try_cast(sum(c.n) AS BIGINT) AS n,
    try_cast(sum(c.call_ns) AS BIGINT) AS call_ns,
    median(c.call_ns) AS median_call_ns,
    quantile_cont(c.call_ns, 0.95) AS p95_call_ns,
    median(c.delay_ns) AS median_delay_ns,
    quantile_cont(c.delay_ns, 0.95) AS p95_delay_ns,
    any_value(l.median_kernel_ns) AS median_kernel_ns,
    count(*) FILTER (c.gpu_ns < c.call_ns) AS shorter_than_call,
    100 * count(*) FILTER (c.gpu_ns < c.call_ns) / count(*) AS shorter_than_call_pct,
    count(*) AS calls
FROM _calls AS c
INNER JOIN _launches AS l USING (trace, api_call)
GROUP BY c.trace, c.api_call
ORDER BY call_ns DESC, c.trace, c.api_call;
