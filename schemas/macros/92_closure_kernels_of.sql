-- Each signature of a measured stage, per iteration: how often and how long it was recorded, what its replay says, and what that makes of
-- time and of energy above the gap power. Tiers are those of a three-tier replay: 1 copies and fills, 2 matrix products of a BLAS library,
-- 3 all others.
-- Where the power cap held the model at a lower clock, a kernel that it slows down in a loop, too, takes longer and costs less than replayed
-- at full clock (clock_ns, clock_mj): in between the two clocks at which it was measured, the time goes with 1 / clock, the energy with it.
CREATE OR REPLACE MACRO _closure_kernels(launched) AS TABLE
WITH replayed AS MATERIALIZED (
    FROM closure_replays
),

-- A launch without a recorded call counts as the call that was found for it, where that was replayed.
called AS (
    SELECT
        l.* EXCLUDE (signature_id, found_id, found_by),
        CASE WHEN f.signature_id IS NULL THEN l.signature_id ELSE l.found_id END AS signature_id,
        CASE WHEN f.signature_id IS NOT NULL THEN l.found_by END AS found_by
    FROM query_table(launched) AS l
    LEFT JOIN (SELECT DISTINCT signature_id FROM replayed) AS f ON l.found_id = f.signature_id
),

by_signature AS (
    SELECT
        trace_id,
        stage,
        signature_id,
        found_by,
        any_value(short_name) AS kernel,
        any_value(kind) AS kind,
        any_value(category) AS category,
        any_value(library) AS library,
        min(unmatched) AS unmatched,
        any_value(marked) AS marked,
        list(DISTINCT iteration_start_ns) AS iterations,
        count(*) AS n,
        sum(duration_ns) AS total_ns,
        sum(wait_ns) AS wait_ns
    FROM called
    GROUP BY trace_id, stage, signature_id, found_by
),

counted AS (
    SELECT trace_id, stage, any_value(marked) AS marked, len(list_distinct(flatten(list(iterations)))) AS iterations, sum(n) AS n
    FROM by_signature
    GROUP BY trace_id, stage
),

-- Where nothing marks iterations, launches per measured iteration tell how many there are.
staged AS (
    SELECT
        s.*,
        CASE
            WHEN c.marked THEN c.iterations
            WHEN s.launches > 0 AND abs(c.n / s.launches - round(c.n / s.launches)) <= 0.02 * round(c.n / s.launches)
                THEN greatest(1, round(c.n / s.launches))
            ELSE 1
        END AS iterations
    FROM closure_stages AS s
    INNER JOIN counted AS c ON s.launches_trace_id = c.trace_id AND s.stage = c.stage
),

-- The replays of a signature on the GPU of the trace; where that GPU has no name, those with a time, of any.
fitting AS (
    SELECT s.trace_id, s.stage, s.mode, s.kernels_trace_id, r.*
    FROM staged AS s
    INNER JOIN replayed AS r ON s.gpu = r.gpu OR s.gpu IS NULL OR r.gpu IS NULL
    WHERE r.signature_id IN (SELECT signature_id FROM by_signature)
    QUALIFY row_number() OVER (
        PARTITION BY s.trace_id, s.stage, s.mode, s.kernels_trace_id, r.signature_id
        ORDER BY r.mean_ns IS NULL, r.gpu IS NULL, r.gpu, r.run_id
    ) = 1
),

elsewhere AS (
    SELECT signature_id, string_agg(DISTINCT gpu, ', ' ORDER BY gpu) AS gpus FROM replayed WHERE mean_ns IS NOT NULL GROUP BY signature_id
)

SELECT
    s.trace,
    s.stage,
    s.mode,
    l.signature_id,
    l.kernel,
    l.category,
    CASE
        WHEN l.kind IN ('memcpy', 'memset') THEN 1
        WHEN l.category IN ('GEMM', 'GEMV') AND l.library IN ('cuBLAS', 'cuBLASLt', 'rocBLAS', 'hipBLASLt', 'Tensile', 'CUTLASS') THEN 2
        ELSE 3
    END AS tier,
    CASE
        WHEN l.found_by IS NOT NULL THEN l.found_by
        WHEN r.mean_ns IS NOT NULL AND r.route IN ('inherited', 'inferred') THEN 'aten'
        ELSE coalesce(r.route, 'none')
    END AS route,
    r.grade,
    r.cache,
    l.n / s.iterations AS n,
    l.total_ns / s.iterations AS recorded_ns,
    100 * l.total_ns / nullif(sum(l.total_ns) OVER (PARTITION BY s.trace, s.stage, s.mode), 0) AS share_pct,
    l.n / s.iterations * r.mean_ns AS replayed_ns,
    CASE WHEN r.mean_ns IS NOT NULL THEN l.n / s.iterations * coalesce(r.half_ns, 0) END AS replayed_half_ns,
    r.mean_ns * l.n / l.total_ns AS ratio,
    l.n / s.iterations * r.above_gap_mj AS above_gap_mj,
    CASE WHEN r.above_gap_mj IS NOT NULL THEN l.n / s.iterations * coalesce(r.above_half_mj, 0) END AS above_gap_half_mj,
    CASE
        WHEN r.mean_ns IS NULL THEN NULL
        WHEN s.sm_mhz < r.energy_mhz AND r.capped_mhz < r.energy_mhz
            THEN
                l.n / s.iterations * r.mean_ns * (r.capped_stretch - 1)
                * least(1, (1 / s.sm_mhz - 1 / r.energy_mhz) / (1 / r.capped_mhz - 1 / r.energy_mhz))
        ELSE 0
    END AS clock_ns,
    CASE
        WHEN r.above_gap_mj IS NULL THEN NULL
        WHEN s.sm_mhz < r.energy_mhz AND r.capped_mhz < r.energy_mhz
            THEN
                l.n / s.iterations * r.above_gap_mj * (r.capped_energy - 1)
                * least(1, (r.energy_mhz - s.sm_mhz) / (r.energy_mhz - r.capped_mhz))
        ELSE 0
    END AS clock_mj,
    CASE
        WHEN r.mean_ns IS NOT NULL THEN NULL
        WHEN l.unmatched IS NOT NULL THEN 'under CUDA graphs: ' || l.unmatched
        WHEN r.signature_id IS NOT NULL THEN r.reason
        WHEN e.gpus IS NOT NULL THEN 'replayed on another GPU only: ' || e.gpus
        ELSE 'not replayed'
    END AS reason,
    CASE WHEN r.above_gap_mj IS NULL THEN coalesce(r.energy_reason, 'not replayed') END AS energy_reason,
    r.clock_mhz,
    r.energy_mhz,
    CASE WHEN r.above_gap_mj IS NOT NULL THEN r.energy_run_id END AS energy_run_id,
    s.kernels_trace,
    s.iterations::BIGINT AS iterations,
    l.wait_ns / s.iterations AS wait_ns
FROM by_signature AS l
INNER JOIN staged AS s ON l.trace_id = s.launches_trace_id AND l.stage = s.stage
LEFT JOIN fitting AS r
    ON l.signature_id = r.signature_id AND s.kernels_trace_id = r.kernels_trace_id AND s.trace_id IS NOT DISTINCT FROM r.trace_id
    AND s.stage = r.stage AND s.mode IS NOT DISTINCT FROM r.mode
LEFT JOIN elsewhere AS e ON l.signature_id = e.signature_id
ORDER BY s.trace, s.stage, s.mode, recorded_ns DESC, l.signature_id, l.found_by, s.run;

CREATE OR REPLACE MACRO closure_kernels_of(source) AS TABLE
WITH closure_launched AS MATERIALIZED (
    FROM closure_launches(source)
)

FROM _closure_kernels('closure_launched');
