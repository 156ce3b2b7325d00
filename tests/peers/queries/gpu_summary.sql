-- SM efficiency as tb_plugin estimates it: a moment counts with the blocks per multiprocessor of the kernels that run then, at most 1.
WITH steps AS (
    SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM profiler_steps($trace)
),

inside AS (
    SELECT
        k.device,
        k.name,
        k.blocks_per_multiprocessor,
        k.occupancy,
        k.duration_ns,
        greatest(k.start_ns, steps.start_ns) AS start_ns,
        least(k.end_ns, steps.end_ns) AS end_ns
    FROM kernels AS k
    CROSS JOIN steps
    WHERE k.trace = $trace AND k.kind = 'kernel' AND k.start_ns < steps.end_ns AND k.end_ns > steps.start_ns
),

edges AS (
    SELECT device, start_ns AS at_ns, 1 AS change, blocks_per_multiprocessor AS blocks FROM inside
    UNION ALL
    SELECT device, end_ns, -1, -blocks_per_multiprocessor FROM inside
),

running AS (
    SELECT
        device,
        sum(sum(change)) OVER upto AS kernels,
        sum(sum(blocks)) OVER upto AS blocks,
        lead(at_ns) OVER upto - at_ns AS duration_ns
    FROM edges
    GROUP BY device, at_ns
    WINDOW upto AS (PARTITION BY device ORDER BY at_ns)
),

shares AS (
    SELECT
        running.device,
        sum(running.duration_ns) FILTER (running.kernels > 0) / any_value(steps.end_ns - steps.start_ns) AS busy,
        sum(running.duration_ns * least(1, running.blocks)) FILTER (running.kernels > 0)
        / any_value(steps.end_ns - steps.start_ns) AS efficiency
    FROM running
    CROSS JOIN steps
    GROUP BY running.device
),

weighted AS (
    SELECT
        device,
        100 * sum(occupancy * (end_ns - start_ns)) / sum(end_ns - start_ns) AS occupancy,
        coalesce(sum(duration_ns) FILTER (uses_tensor_cores(name)), 0) / sum(duration_ns) AS tensor_cores
    FROM inside
    GROUP BY device
)

SELECT
    d.name AS "Name",
    format('{:.2f} GB', d.memory_bytes / 1024 ** 3) AS "Memory",
    replace(d.arch, 'sm_', '')[:-2] || '.' || d.arch[-1] AS "Compute Capability",
    100 * shares.busy AS "GPU Utilization",
    100 * shares.efficiency AS "Est. SM Efficiency",
    weighted.occupancy AS "Est. Achieved Occupancy",
    100 * weighted.tensor_cores AS "Kernel Time using Tensor Cores"
FROM shares
INNER JOIN weighted USING (device)
INNER JOIN devices AS d ON d.device = shares.device
INNER JOIN traces AS t ON t.trace_id = d.trace_id AND t.name = $trace;
