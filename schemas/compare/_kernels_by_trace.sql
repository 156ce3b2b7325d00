-- One row per kernel and trace of launches, with `matched`: whether every trace has the kernel. What its launches do not agree on is NULL; so are
-- sums that not all of them have. `launches` names a relation as of `_labelled_launches`: kernels are matched by `kernel` alone.
CREATE OR REPLACE MACRO _kernels_by_trace(launches) AS TABLE
WITH grouped AS (
    SELECT
        kernel_key,
        min(kernel) AS kernel,
        trace,
        mode(short_name ORDER BY short_name) AS short_name,
        count(*) AS n,
        avg(duration_ns) AS mean_ns,
        min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        CASE WHEN min(registers) = max(registers) THEN min(registers) END AS registers,
        CASE WHEN min(shared_bytes) = max(shared_bytes) THEN min(shared_bytes) END AS shared_bytes,
        CASE WHEN min(grid) = max(grid) THEN min(grid) END AS grid,
        CASE WHEN min(work_items) = max(work_items) THEN min(work_items) END AS work_items,
        CASE WHEN min(block) = max(block) THEN min(block) END AS block,
        CASE WHEN min(theoretical_occupancy) = max(theoretical_occupancy) THEN min(theoretical_occupancy) END AS theoretical_occupancy,
        CASE WHEN min(theoretical_occupancy_cu) = max(theoretical_occupancy_cu) THEN min(theoretical_occupancy_cu) END
            AS theoretical_occupancy_cu,
        CASE WHEN count(flops) = count(*) THEN sum(flops) END AS flops,
        CASE WHEN count(moved_bytes) = count(*) THEN sum(moved_bytes) END AS moved_bytes,
        CASE WHEN count(pct_peak_flops) = count(*) THEN sum(pct_peak_flops * duration_ns) / sum(duration_ns) END AS pct_peak_flops,
        CASE WHEN count(pct_peak_bandwidth) = count(*) THEN sum(pct_peak_bandwidth * duration_ns) / sum(duration_ns) END
            AS pct_peak_bandwidth
    FROM query_table(launches)
    GROUP BY kernel_key, trace
),

_named AS (
    SELECT *, trace AS side, NULL::VARCHAR AS signature_id, kernel_key AS match_name, NULL::VARCHAR AS op, NULL::VARCHAR AS kind
    FROM grouped
)

SELECT * EXCLUDE (side, signature_id, match_name, op, kind, matched_by, row_key), matched_by = 'name' AS matched
FROM _matched('_named', sides := (SELECT count(DISTINCT trace) FROM grouped));
