-- FROM profiler_steps('trace'): the steps as tb_plugin counts them. A step ends when the last GPU activity that was launched in it
-- ends, or later with the step on the host; the next one begins there.
CREATE OR REPLACE TEMP MACRO profiler_steps(trace_name) AS TABLE
WITH host AS (
    SELECT ops.name, ops.start_ns, ops.start_ns + ops.duration_ns AS end_ns
    FROM ops
    INNER JOIN traces USING (trace_id)
    WHERE traces.name = trace_name AND ops.name LIKE 'ProfilerStep#%'
),

both_sides AS (
    SELECT host.name, host.start_ns, greatest(host.end_ns, max(k.end_ns)) AS end_ns
    FROM host
    LEFT JOIN (FROM kernels WHERE trace = trace_name) AS k
        ON k.launch_start_ns >= host.start_ns AND k.launch_start_ns + k.launch_duration_ns <= host.end_ns
    GROUP BY host.name, host.start_ns, host.end_ns
)

SELECT
    name,
    greatest(start_ns, lag(end_ns, 1, start_ns) OVER (ORDER BY start_ns)) AS start_ns,
    end_ns
FROM both_sides;
