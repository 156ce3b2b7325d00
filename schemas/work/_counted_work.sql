-- Operations and bytes of a launch of each signature as counters have them, and the peaks that they were counted against: a row per model of GPU, and
-- one for all of them (`is_total`), for bytes differ with the caches, peaks with everything. Counters of replayed calls (`of_replay`) stand where there
-- are none of the program itself.
CREATE OR REPLACE VIEW _counted_work AS
WITH
-- One kind of operation may be counted under several names (dense and sparse, plain and by instruction): the largest count of a precision stands,
-- with the lowest peak of those that share it.
per_precision AS (
    SELECT
        trace_id,
        launch_index,
        precision,
        any_value(signature_id) AS signature_id,
        max(flops_per_second) AS flops_per_second,
        arg_min(peak_flops_per_second, (-flops_per_second, peak_flops_per_second)) AS peak_flops_per_second,
        min(bytes_per_second) AS bytes_per_second,
        any_value(peak_bytes_per_second) AS peak_bytes_per_second
    FROM ncu_roofline
    WHERE level = 'dram'
    GROUP BY trace_id, launch_index, precision
),

per_launch AS (
    SELECT
        r.trace_id,
        r.launch_index,
        any_value(r.signature_id) AS signature_id,
        any_value(coalesce(d.gpu, d.device_name)) AS model,
        any_value(t.kind = 'replay') AS of_replay,
        any_value(CASE WHEN t.kind = 'replay' THEN _cache_order(t.metadata->>'cache') ELSE 0 END) AS cache_order,
        sum(r.flops_per_second * l.duration_ns) / 1e9 AS flops,
        min(r.bytes_per_second * l.duration_ns) / 1e9 AS moved_bytes,
        arg_min(r.peak_flops_per_second, (-r.flops_per_second, r.peak_flops_per_second)) AS peak_flops_per_second,
        any_value(r.peak_bytes_per_second) AS peak_bytes_per_second
    FROM per_precision AS r
    INNER JOIN launches AS l USING (trace_id, launch_index)
    INNER JOIN traces AS t ON l.trace_id = t.trace_id
    LEFT JOIN device_peaks AS d ON l.trace_id = d.trace_id AND l.device = d.device
    GROUP BY r.trace_id, r.launch_index
),

-- Those of the program go first, then those of replays in the state of the caches that is nearest to it: of a model of GPU, and of all of them.
of_model AS (
    FROM per_launch
    QUALIFY
        of_replay = bool_and(of_replay) OVER (PARTITION BY signature_id, model)
        AND cache_order = min(cache_order) OVER (PARTITION BY signature_id, model)
),

of_all AS (
    FROM of_model
    QUALIFY
        of_replay = bool_and(of_replay) OVER (PARTITION BY signature_id)
        AND cache_order = min(cache_order) OVER (PARTITION BY signature_id)
)

SELECT
    signature_id,
    CASE WHEN NOT is_total THEN counted.model END AS model,
    is_total,
    count(DISTINCT coalesce(model, '')) AS models,
    max(model) AS any_model,
    string_agg(DISTINCT model, ', ' ORDER BY model) AS all_models,
    bool_and(of_replay) AS of_replay,
    avg(flops) AS flops,
    avg(moved_bytes) AS moved_bytes,
    avg(peak_flops_per_second) AS peak_flops_per_second,
    avg(peak_bytes_per_second) AS peak_bytes_per_second
FROM (
    SELECT *, false AS is_total FROM of_model
    UNION ALL
    SELECT *, true AS is_total FROM of_all
) AS counted
GROUP BY signature_id, is_total, CASE WHEN NOT is_total THEN counted.model END;
