-- The hottest lines and instructions of the profiled kernels: lines of source where there are any, else instructions.
WITH held AS (
    SELECT *, bool_or(level <> 'sass') OVER (PARTITION BY trace_id, launch_index, kernel_index, kernel) AS has_source
    FROM source_hotspots
    WHERE list_contains($traces::VARCHAR[], trace) AND place <= 5
)

SELECT
    kernel,
    level,
    coalesce(regexp_extract(file, '[^/\\]+$') || ':' || line, line::VARCHAR, instruction::VARCHAR) AS place,
    text,
    share_pct,
    samples,
    stall,
    stall_pct
FROM held
WHERE (level <> 'sass') = has_source
ORDER BY samples DESC NULLS LAST, kernel, level, place, text
LIMIT 20;
