-- The instructions and source lines at which most samples of a kernel's warps were taken, the hottest first.
--
-- Lines and instructions are two views of the same samples: choose one level. Where no samples were taken, executed instructions rank.
--
-- Columns:
--   trace: as in kernels
--   launch_index, kernel_index, kernel, level, file, line, instruction, text: as in source_counters
--   samples DOUBLE: Samples of the program counter, of all warps.
--   share_pct DOUBLE [%]: Share of the samples of the kernel at this level.
--   executed DOUBLE: How often warps executed it.
--   stall VARCHAR: The most frequent reason of its samples, such as stall_long_sb; NULL where none is printed.
--   stall_pct DOUBLE [%]: Share of that reason in its samples.
--   place BIGINT: Rank in its kernel at its level, from 1.
--   trace_id: as in kernels
-- Example:
--   SELECT count(*) AS lines, max(share_pct) AS hottest_pct FROM source_hotspots WHERE level = 'sass' AND place <= 10;
CREATE OR REPLACE VIEW source_hotspots AS
WITH stalls AS (
    SELECT
        *,
        metric LIKE 'stall\_%' ESCAPE '\' AND metric NOT LIKE '%(Not Issued)'
        OR metric LIKE 'smsp\_\_pcsamp\_warps\_issue\_stalled\_%' ESCAPE '\' AND metric NOT LIKE '%\_not\_issued' ESCAPE '\' AS is_stall
    FROM source_counters
),

lines AS (
    SELECT
        trace_id,
        launch_index,
        kernel_index,
        kernel,
        level,
        file,
        line,
        instruction,
        any_value(text) AS text,
        coalesce(
            max(value) FILTER (metric IN ('# Samples', 'smsp__pcsamp_sample_count')),
            max(value) FILTER (metric LIKE 'Warp Stall Sampling (All %'),
            sum(value) FILTER (is_stall)
        ) AS samples,
        max(value) FILTER (metric IN ('Instructions Executed', 'inst_executed')) AS executed,
        arg_max(metric, (value, metric)) FILTER (is_stall AND value > 0) AS stall,
        max(value) FILTER (is_stall) AS stalled
    FROM stalls
    GROUP BY ALL
)

SELECT
    t.name AS trace,
    s.launch_index,
    s.kernel_index,
    s.kernel,
    s.level,
    s.file,
    s.line,
    s.instruction,
    s.text,
    s.samples,
    100 * s.samples / nullif(sum(s.samples) OVER (PARTITION BY s.trace_id, s.kernel_index, s.level), 0) AS share_pct,
    s.executed,
    s.stall,
    100 * s.stalled / nullif(s.samples, 0) AS stall_pct,
    row_number() OVER (
        PARTITION BY s.trace_id, s.kernel_index, s.level
        ORDER BY s.samples DESC NULLS LAST, s.executed DESC NULLS LAST, s.instruction, s.file, s.line
    ) AS place,
    s.trace_id
FROM lines AS s
INNER JOIN traces AS t USING (trace_id);
