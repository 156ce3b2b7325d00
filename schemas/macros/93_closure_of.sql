-- The books of each measured stage, per iteration. Time: kernels, at the clock of the model, - overlap + launch gaps, what a graph itself waits, and the launches
-- without a replay at their recorded time make `predicted_ns`: the wall time if the GPU never waits for the host. Where it was busy for less
-- than 80 % of the measured time it did wait: the prediction is a lower bound then, and `waiting_ns`, the rest of the measured time, no
-- prediction. Energy: above the gap power, of kernels and (estimated) of the rest, plus the gap power for predicted_ns, plus the power of an
-- open context for waiting_ns. Where `source` holds a part of the launches only, there is neither an error nor a waiting_ns: what was measured
-- is all of them.
-- The profiler slows the ranks of a job unequally, and they wait for each other in collectives: those waits are not those of the measured run.
-- They are no part of anything here but `collective_waits_ns`; where they are not known, neither is the busy share.
CREATE OR REPLACE MACRO _closure(selected, whole) AS TABLE
WITH kernels_of AS (
    SELECT
        trace,
        stage,
        mode,
        any_value(kernels_trace) AS kernels_trace,
        any_value(iterations) AS iterations,
        count(*) AS signatures,
        sum(n) AS n,
        coalesce(sum(n) FILTER (replayed_ns IS NOT NULL), 0) AS replayed_n,
        sum(recorded_ns) AS recorded_ns,
        coalesce(sum(recorded_ns) FILTER (replayed_ns IS NOT NULL), 0) AS compared_ns,
        coalesce(sum(replayed_ns), 0) AS kernels_ns,
        1.0 * sqrt(coalesce(sum(replayed_half_ns ** 2) FILTER (replayed_ns IS NOT NULL), 0)) AS kernels_half_ns,
        coalesce(sum(replayed_ns) FILTER (route = 'inherited'), 0) AS inherited_ns,
        coalesce(sum(replayed_ns) FILTER (route = 'inferred'), 0) AS inferred_ns,
        coalesce(sum(above_gap_mj) FILTER (route = 'inherited'), 0) AS inherited_mj,
        coalesce(sum(above_gap_mj) FILTER (route = 'inferred'), 0) AS inferred_mj,
        coalesce(sum(recorded_ns) FILTER (replayed_ns IS NULL), 0) AS unreplayed_ns,
        sum(above_gap_mj) AS above_gap_mj,
        sqrt(sum(above_gap_half_mj ** 2) FILTER (above_gap_mj IS NOT NULL)) AS above_gap_half_mj,
        coalesce(sum(clock_ns), 0) AS clock_ns,
        coalesce(sum(clock_mj), 0) AS clock_mj,
        coalesce(sum(coalesce(replayed_ns, recorded_ns)) FILTER (above_gap_mj IS NOT NULL), 0) AS powered_ns,
        coalesce(sum(coalesce(replayed_ns, recorded_ns)) FILTER (above_gap_mj IS NULL), 0) AS unpowered_ns,
        sum(replayed_ns * clock_mhz) / sum(replayed_ns) FILTER (clock_mhz IS NOT NULL) AS replay_mhz,
        sum(recorded_ns * energy_mhz) FILTER (above_gap_mj IS NOT NULL)
        / sum(recorded_ns) FILTER (above_gap_mj IS NOT NULL AND energy_mhz IS NOT NULL) AS energy_mhz,
        arg_max(energy_run_id, (recorded_ns, energy_run_id)) FILTER (energy_run_id IS NOT NULL) AS energy_run_id,
        string_agg(DISTINCT cache, ', ' ORDER BY cache) AS caches
    FROM _closure_kernels(selected)
    GROUP BY trace, stage, mode
),

-- How the device goes from launch to launch, and how much runs at once: of whole traces, whatever is selected.
flows AS (
    SELECT
        trace_id,
        stage,
        1 - sum(busy_ns) / nullif(sum(duration_ns), 0) AS overlap_share,
        count(*) FILTER (NOT beside) / count(*) AS alone_share,
        count(*) FILTER (queued AND gap_ns > 0) AS queued_gaps,
        count(*) AS n,
        median(gap_ns) FILTER (queued AND gap_ns > 0) AS queued_gap_ns,
        sum(gap_ns) FILTER (queued AND NOT held_up) AS queued_total_ns,
        count(*) FILTER (NOT (queued AND held_up)) AS flowing,
        sum(busy_ns) AS traced_busy_ns,
        count(*) FILTER (category = 'COMMUNICATION') AS exchanges,
        count(*) FILTER (category = 'COMMUNICATION' AND wait_ns IS NULL) AS unmatched,
        sum(wait_ns) AS waits_ns,
        count(DISTINCT device) AS devices
    FROM query_table(whole)
    GROUP BY trace_id, stage
),

-- Few full-queue gaps are those behind some long kernel, not those of the rest.
joined AS (
    SELECT
        s.* EXCLUDE (busy_ns, gap_ns, gap_power_w, gap_power_error_w, context_power_w),
        k.* EXCLUDE (trace, stage, mode, kernels_trace, above_gap_half_mj),
        -- Errors of single energies, and the drift that all of them share.
        sqrt(k.above_gap_half_mj ** 2 + (1.96 * coalesce(u.energy_drift, 0) * k.above_gap_mj) ** 2) AS above_gap_half_mj,
        f.overlap_share,
        f.devices,
        round(k.n * k.iterations) < f.n AS is_part,
        f.exchanges > 0 AND t.world_size > 1 AS exchanging,
        exchanging AND f.unmatched > 0 AS waits_unknown,
        CASE WHEN exchanging THEN CASE WHEN f.unmatched = 0 THEN f.traced_busy_ns / k.iterations END ELSE s.busy_ns END AS busy_ns,
        CASE WHEN exchanging THEN f.waits_ns / k.iterations END AS collective_waits_ns,
        f.queued_gaps >= 20 AND f.queued_gaps >= 0.05 * f.n AS own_gaps,
        k.n * f.alone_share AS gap_launches,
        CASE WHEN own_gaps THEN f.queued_gap_ns ELSE s.gap_ns END AS gap_ns,
        CASE
            WHEN own_gaps THEN format('median of {} gaps of a full queue, trace {}', f.queued_gaps, s.trace)
            WHEN s.gap_ns IS NOT NULL THEN format('replay run {} (trace: {} gaps of a full queue)', s.gap_run_id, f.queued_gaps)
        END AS gap_source,
        CASE
            WHEN s.mode = 'cuda_graph' AND own_gaps AND s.launches_trace_id = s.trace_id
                THEN greatest(0, f.queued_total_ns / k.iterations - f.flowing * f.alone_share / k.iterations * f.queued_gap_ns)
        END AS idle_ns,
        u.uuid AS energy_board,
        coalesce(u.gap_power_w, s.gap_power_w) AS gap_power_w,
        coalesce(CASE WHEN u.gap_power_w IS NULL THEN s.gap_power_error_w ELSE u.gap_power_error_w END, 0) AS gap_power_error_w,
        coalesce(CASE WHEN u.gap_power_w IS NOT NULL THEN u.context_power_w END, s.context_power_w) AS context_power_w
    FROM closure_stages AS s
    INNER JOIN kernels_of AS k ON s.trace = k.trace AND s.stage = k.stage AND s.mode IS NOT DISTINCT FROM k.mode
    LEFT JOIN flows AS f ON s.launches_trace_id = f.trace_id AND s.stage = f.stage
    LEFT JOIN traces AS t ON s.launches_trace_id = t.trace_id
    LEFT JOIN replay_runs AS u ON k.energy_run_id = u.run_id
),

timed AS (
    SELECT
        *,
        (kernels_ns + clock_ns) * overlap_share AS overlap_ns,
        unreplayed_ns * (1 - overlap_share) AS rest_ns,
        gap_launches * gap_ns AS gaps_ns,
        kernels_ns + clock_ns - overlap_ns + rest_ns AS predicted_busy_ns,
        predicted_busy_ns + coalesce(gaps_ns, 0) + coalesce(idle_ns, 0) AS predicted_ns,
        predicted_ns - rest_ns AS predicted_replayed_ns,
        CASE WHEN waits_unknown IS NOT TRUE THEN 100::DOUBLE * coalesce(busy_ns, predicted_busy_ns) / wall_ns END AS busy_share_pct,
        CASE WHEN wall_ns IS NULL THEN 'unmeasured' WHEN waits_unknown THEN 'unknown' WHEN busy_share_pct >= 80 THEN 'GPU bound' ELSE 'host bound' END AS status,
        CASE WHEN status = 'host bound' AND NOT is_part THEN wall_ns - predicted_ns END AS waiting_ns,
        greatest(0, coalesce(waiting_ns, 0)) AS paused_ns
    FROM joined
),

powered AS (
    SELECT
        *,
        100::DOUBLE * powered_ns / nullif(powered_ns + unpowered_ns, 0) AS powered_time_pct,
        (above_gap_mj + clock_mj) / nullif(powered_ns, 0) * unpowered_ns AS unpowered_mj,
        above_gap_mj + clock_mj + unpowered_mj AS above_gap_all_mj,
        1e-6 * gap_power_w * predicted_ns AS gap_mj,
        1e-6 * gap_power_error_w * predicted_ns AS gap_half_mj,
        1e-6 * coalesce(context_power_w, gap_power_w) * paused_ns AS waiting_mj,
        above_gap_mj + clock_mj + gap_mj + waiting_mj AS predicted_replayed_mj,
        predicted_replayed_mj + unpowered_mj AS predicted_mj,
        sqrt(above_gap_half_mj ** 2 + gap_half_mj ** 2) AS predicted_half_mj,
        energy_mj - 1e-6 * gap_power_w * wall_ns AS above_gap_measured_mj,
        sqrt(((energy_high_mj - energy_low_mj) / 2) ** 2 + (1e-6 * gap_power_error_w * wall_ns) ** 2) AS above_gap_measured_half_mj,
        CASE
            WHEN waiting_ns IS NOT NULL
                THEN energy_mj - 1e-6 * gap_power_w * (wall_ns - paused_ns) - 1e-6 * coalesce(context_power_w, gap_power_w) * paused_ns
        END AS above_waiting_measured_mj
    FROM timed
),

judged AS (
    SELECT
        *,
        CASE WHEN is_part THEN 'only a part of the launches is selected, and the measurement is of all' END AS part_reason,
        CASE
            WHEN wall_ns IS NULL THEN 'the wall time was not measured'
            WHEN is_part THEN part_reason
            WHEN kernels_ns = 0 THEN 'no kernel of this stage was replayed on this GPU'
            WHEN status = 'host bound' THEN 'the GPU waits for the host: the prediction is a lower bound'
            WHEN status = 'unknown' THEN 'collectives wait for other ranks, for how long is not known: the traces of all ranks tell'
            WHEN gaps_ns IS NULL THEN 'launch gaps are unknown: few of a full queue in the trace, and no replay measured them'
        END AS error_reason,
        CASE
            WHEN energy_mj IS NULL THEN coalesce(energy_reason, 'the energy was not measured')
            WHEN is_part THEN part_reason
            WHEN gap_power_w IS NULL THEN 'the power of gaps was not measured'
            WHEN above_gap_mj IS NULL THEN 'no kernel of this stage has an energy'
            WHEN powered_time_pct < 80 THEN format('the energy of only {:.1f} % of the kernel time is known', powered_time_pct)
        END AS energy_unknown
    FROM powered
)

SELECT
    trace,
    run,
    model,
    stage,
    mode,
    gpu,
    kernels_trace,
    status,
    iterations,
    signatures,
    n,
    100 * replayed_n / n AS replayed_launches_pct,
    100::DOUBLE * compared_ns / nullif(recorded_ns, 0) AS replayed_time_pct,
    caches,
    recorded_ns,
    compared_ns,
    kernels_ns,
    kernels_half_ns,
    inherited_ns,
    inferred_ns,
    clock_ns,
    overlap_ns,
    gap_ns,
    gap_source,
    gap_launches,
    gaps_ns,
    idle_ns,
    unreplayed_ns,
    rest_ns,
    predicted_busy_ns,
    predicted_replayed_ns,
    predicted_ns,
    CASE WHEN replayed_time_pct >= 80 THEN predicted_ns - kernels_half_ns END AS predicted_low_ns,
    CASE WHEN replayed_time_pct >= 80 THEN predicted_ns + kernels_half_ns END AS predicted_high_ns,
    waiting_ns,
    wall_ns,
    wall_low_ns,
    wall_high_ns,
    wall_method,
    100 * (kernels_ns / nullif(compared_ns, 0) - 1) AS kernels_error_pct,
    CASE WHEN error_reason IS NULL THEN 100 * (predicted_replayed_ns / wall_ns - 1) END AS replayed_error_pct,
    CASE WHEN error_reason IS NULL THEN 100 * (predicted_ns / wall_ns - 1) END AS error_pct,
    error_reason,
    busy_ns AS measured_busy_ns,
    busy_share_pct,
    sm_mhz AS model_mhz,
    replay_mhz,
    energy_mhz,
    energy_run_id,
    board,
    energy_board,
    gap_power_w,
    gap_power_error_w,
    context_power_w,
    above_gap_mj,
    above_gap_half_mj,
    inherited_mj,
    inferred_mj,
    clock_mj,
    powered_time_pct,
    unpowered_mj,
    gap_mj,
    gap_half_mj,
    waiting_mj,
    predicted_replayed_mj,
    predicted_mj,
    CASE WHEN powered_time_pct >= 80 THEN predicted_mj - predicted_half_mj END AS predicted_low_mj,
    CASE WHEN powered_time_pct >= 80 THEN predicted_mj + predicted_half_mj END AS predicted_high_mj,
    energy_mj,
    energy_low_mj,
    energy_high_mj,
    energy_method,
    CASE
        WHEN coalesce(energy_unknown, error_reason) IS NULL THEN 100 * (predicted_replayed_mj / energy_mj - 1)
    END AS energy_replayed_error_pct,
    CASE WHEN coalesce(energy_unknown, error_reason) IS NULL THEN 100 * (predicted_mj / energy_mj - 1) END AS energy_error_pct,
    coalesce(energy_unknown, error_reason) AS energy_error_reason,
    above_gap_all_mj,
    above_gap_measured_mj,
    above_gap_measured_half_mj,
    CASE WHEN energy_unknown IS NULL THEN 100 * (above_gap_all_mj / nullif(above_gap_measured_mj, 0) - 1) END AS above_gap_error_pct,
    above_waiting_measured_mj,
    CASE
        WHEN energy_unknown IS NULL THEN 100 * (above_gap_all_mj / nullif(above_waiting_measured_mj, 0) - 1)
    END AS above_waiting_error_pct,
    CASE
        WHEN wall_ns IS NULL THEN coalesce(energy_unknown, 'the wall time was not measured')
        ELSE energy_unknown
    END AS above_gap_reason,
    CASE WHEN devices > 1 THEN 'several devices: their times are summed' END AS time_reason,
    exchanging IS TRUE AS exchanging,
    collective_waits_ns
FROM judged
ORDER BY trace, stage, mode, run;

CREATE OR REPLACE MACRO closure_of(source) AS TABLE
WITH closure_selected AS MATERIALIZED (
    FROM closure_launches(source)
),

closure_whole AS MATERIALIZED (
    FROM closure_launches('_kernels')
)

FROM _closure('closure_selected', 'closure_whole');
