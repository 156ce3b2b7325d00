-- What a signature costs on a GPU by its replays: the latest run that replayed it as the same kernel (L0, L1), the mean over its calls weighted by
-- their launches; of energy, the latest such run that measured it. Where it never was, the latest reason. A call that was inferred for launches without
-- one has a signature of its own; one that was tried and not accepted gives no time.
CREATE OR REPLACE VIEW _reconciliation_replays AS
WITH replayed AS (
    SELECT
        coalesce(r.inferred_id, r.signature_id) AS signature_id,
        r.inferred_id IS NOT NULL OR r.dims_source IS NULL OR r.dims_source = 'op' AS accepted,
        u.gpu,
        u.run_id,
        u.started,
        CASE WHEN accepted AND r.grade IN ('L0', 'L1') AND r.mean_ns IS NOT NULL THEN coalesce(r.launches, 1) END AS weight,
        CASE WHEN accepted AND r.grade IN ('L0', 'L1') AND r.dynamic_mj IS NOT NULL THEN coalesce(r.launches, 1) END AS energy_weight,
        r.grade,
        r.route,
        r.cache,
        r.mean_ns,
        (r.high_ns - r.low_ns) / 2 AS half_ns,
        r.dynamic_mj,
        (r.dynamic_high_mj - r.dynamic_low_mj) / 2 AS above_half_mj,
        CASE WHEN accepted THEN '' ELSE 'no call was found: ' END || r.grade || coalesce(': ' || r.reason, '') AS reason,
        coalesce(r.energy_reason, u.energy_reason) AS energy_reason,
        c.clock_mhz,
        c.energy_sm_mhz,
        c.capped_mhz,
        c.capped_stretch,
        c.capped_dynamic_mj / nullif(c.dynamic_mj, 0) AS capped_energy
    FROM replays AS r
    INNER JOIN replay_runs AS u USING (run_id)
    LEFT JOIN replay_calls AS c ON r.run_id = c.run_id AND r.item_id = c.item_id
),

by_run AS (
    SELECT
        signature_id,
        gpu,
        run_id,
        any_value(started) AS started,
        max(grade) FILTER (weight IS NOT NULL) AS grade,
        arg_max(route, (coalesce(weight, 0), route, cache)) AS route,
        arg_max(cache, (coalesce(weight, 0), route, cache)) AS cache,
        sum(mean_ns * weight) / sum(weight) AS mean_ns,
        sum(half_ns * weight) / sum(weight) AS half_ns,
        sum(dynamic_mj * energy_weight) / sum(energy_weight) AS dynamic_mj,
        sum(above_half_mj * energy_weight) / sum(energy_weight) AS above_half_mj,
        min(reason) AS reason,
        min(energy_reason) AS energy_reason,
        sum(clock_mhz * weight) FILTER (clock_mhz IS NOT NULL) / sum(weight) FILTER (clock_mhz IS NOT NULL) AS clock_mhz,
        sum(energy_sm_mhz * energy_weight) FILTER (energy_sm_mhz IS NOT NULL)
        / sum(energy_weight) FILTER (energy_sm_mhz IS NOT NULL) AS energy_mhz,
        sum(capped_mhz * energy_weight) FILTER (capped_mhz IS NOT NULL)
        / sum(energy_weight) FILTER (capped_mhz IS NOT NULL) AS capped_mhz,
        sum(coalesce(capped_stretch, 1) * energy_weight) / sum(energy_weight) AS capped_stretch,
        sum(coalesce(capped_energy, 1) * energy_weight) / sum(energy_weight) AS capped_energy
    FROM replayed
    GROUP BY signature_id, gpu, run_id
),

timed AS (
    SELECT *
    FROM by_run
    QUALIFY row_number() OVER (PARTITION BY signature_id, gpu ORDER BY mean_ns IS NULL, started DESC, run_id) = 1
),

powered AS (
    SELECT *
    FROM by_run
    QUALIFY row_number() OVER (PARTITION BY signature_id, gpu ORDER BY dynamic_mj IS NULL, started DESC, run_id) = 1
)

SELECT
    t.signature_id,
    t.gpu,
    t.run_id,
    t.grade,
    t.route,
    t.cache,
    t.mean_ns,
    t.half_ns,
    t.clock_mhz,
    CASE WHEN t.mean_ns IS NULL THEN t.reason END AS reason,
    CASE WHEN p.dynamic_mj IS NOT NULL THEN p.run_id END AS energy_run_id,
    p.dynamic_mj,
    p.above_half_mj,
    p.energy_mhz,
    p.capped_mhz,
    CASE WHEN p.capped_mhz IS NOT NULL THEN p.capped_stretch END AS capped_stretch,
    CASE WHEN p.capped_mhz IS NOT NULL THEN p.capped_energy END AS capped_energy,
    CASE WHEN p.dynamic_mj IS NULL THEN coalesce(p.energy_reason, 'energy was not measured') END AS energy_reason
FROM timed AS t
INNER JOIN powered AS p ON t.signature_id = p.signature_id AND t.gpu IS NOT DISTINCT FROM p.gpu;
