SELECT
    count(*) FILTER (kind = 'kernel') AS kernels,
    count(*) FILTER (kind = 'memcpy') AS memcpy,
    count(*) FILTER (kind = 'memset') AS memset,
    coalesce(sum(bytes) FILTER (kind = 'memcpy'), 0)::BIGINT AS memcpy_bytes,
    count(DISTINCT name) FILTER (kind = 'kernel') AS names,
    count(DISTINCT (name, grid_x, grid_y, grid_z, block_x, block_y, block_z)) FILTER (kind = 'kernel') AS launch_configs,
    count(*) FILTER (category = 'COMMUNICATION') AS nccl,
    coalesce(sum(duration_ns) FILTER (category = 'COMMUNICATION'), 0) / 1000 AS nccl_us,
    count(*) FILTER (launch_status <> 'linked') AS no_external_id,
    (SELECT count(*) FROM ops INNER JOIN traces USING (trace_id) WHERE traces.name = $trace) AS cpu_ops
FROM kernels
WHERE trace = $trace;
