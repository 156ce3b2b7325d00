-- closure_of as a list, one row per term. Rows of a section with the role `addend` add up to its `predicted, replayed only`, together with
-- those `addend, not replayed` to its `predicted`; in a host-bound stage, those `addend, observed` make it the measured time (energy: they
-- are in the totals). `status` says how far a value can be trusted, `note` why there is none. (The parameter cannot be called `source`: a
-- column is.)
CREATE OR REPLACE MACRO closure_terms_of(launched) AS TABLE
WITH listed AS (
    SELECT
        trace,
        stage,
        mode,
        unnest([
            (
                'time', 'kernels', 'addend', 'predicted', kernels_ns - inherited_ns - inferred_ns,
                CASE WHEN kernels_ns > inherited_ns + inferred_ns THEN kernels_ns - inherited_ns - inferred_ns - kernels_half_ns END,
                CASE WHEN kernels_ns > inherited_ns + inferred_ns THEN kernels_ns - inherited_ns - inferred_ns + kernels_half_ns END, 'ns',
                'replays (' || coalesce(caches, 'none') || ')',
                format('{:.1f} % of the launches, {:.1f} % of their recorded time', replayed_launches_pct, replayed_time_pct)
            ),
            (
                'time', 'kernels, inherited calls', 'addend', 'predicted', inherited_ns, NULL, NULL, 'ns', 'replays',
                'calls taken from the same launches elsewhere'
            ),
            (
                'time', 'kernels, inferred calls', 'addend', 'predicted', inferred_ns, NULL, NULL, 'ns', 'replays',
                'calls found by trying'
            ),
            (
                'time', 'lower clock', 'addend', 'predicted', clock_ns, NULL, NULL, 'ns', 'replays',
                CASE WHEN clock_ns > 0 THEN 'kernels that the power cap slows down, at the clock of the model' END
            ),
            ('time', 'overlap', 'addend', 'predicted', 0 - overlap_ns, NULL, NULL, 'ns', 'trace ' || trace, NULL),
            (
                'time', 'launch gaps', 'addend', 'predicted', gaps_ns, NULL, NULL, 'ns', gap_source,
                coalesce(
                    format('{:.1f} launches with {:.0f} ns each', gap_launches, gap_ns),
                    'few gaps of a full queue in the trace, and no replay measured them'
                )
            ),
            (
                'time', 'idle', 'addend', CASE WHEN mode IS DISTINCT FROM 'cuda_graph' THEN 'left out' ELSE 'predicted' END, idle_ns,
                NULL, NULL, 'ns', CASE WHEN idle_ns IS NOT NULL THEN 'trace ' || trace END,
                CASE
                    WHEN mode IS DISTINCT FROM 'cuda_graph' THEN 'the profiler slows the host: its idle time is not that of the run'
                    WHEN idle_ns IS NULL THEN 'no gaps of a full queue in a trace of the graph'
                    ELSE 'longer waits from node to node of the graph'
                END
            ),
            (
                'time', 'unreplayed', 'addend, not replayed', 'recorded', rest_ns, NULL, NULL, 'ns', 'trace ' || trace,
                'at their recorded time, less their overlap'
            ),
            (
                'time', 'predicted, replayed only', 'total', CASE status WHEN 'host bound' THEN 'lower bound' ELSE 'predicted' END,
                predicted_replayed_ns, NULL, NULL, 'ns', NULL, 'without the unreplayed'
            ),
            (
                'time', 'predicted, GPU bound', 'total', CASE status WHEN 'host bound' THEN 'lower bound' ELSE 'predicted' END,
                predicted_ns, predicted_low_ns, predicted_high_ns, 'ns', NULL,
                coalesce(time_reason, 'if the GPU never waits for the host')
            ),
            (
                'time', 'waiting for the host', 'addend, observed',
                CASE status WHEN 'host bound' THEN 'observed' ELSE 'left out' END, waiting_ns, NULL, NULL, 'ns', wall_method,
                CASE status
                    WHEN 'host bound'
                        THEN
                            CASE
                                WHEN waiting_ns IS NULL THEN error_reason
                                WHEN exchanging THEN 'measured less predicted: no prediction; what other ranks waited for is in it'
                                ELSE 'measured less predicted: no prediction'
                            END
                    WHEN 'GPU bound' THEN 'the GPU hardly waits'
                    WHEN 'unknown' THEN 'how long collectives waited for other ranks is not known: the traces of all ranks tell'
                    ELSE 'the wall time was not measured'
                END
            ),
            (
                'time', 'waiting in collectives', 'addend', 'left out', NULL, NULL, NULL, 'ns', 'trace ' || trace,
                CASE
                    WHEN collective_waits_ns IS NOT NULL
                        THEN
                            format('{:.1f} µs', 1e-3 * collective_waits_ns)
                            || ' under the profiler, which slows ranks unequally: they are not those of the run'
                    WHEN exchanging THEN 'how long collectives waited for other ranks is not known'
                END
            ),
            (
                'time', 'measured', 'measured', 'measured', wall_ns, wall_low_ns, wall_high_ns, 'ns', wall_method,
                CASE WHEN wall_ns IS NULL THEN error_reason END
            ),
            (
                'time', 'error', 'error',
                CASE WHEN error_pct IS NULL THEN 'withheld' WHEN replayed_time_pct < 80 THEN 'recorded' ELSE 'valid' END, error_pct,
                CASE WHEN error_pct IS NOT NULL THEN 100 * (predicted_low_ns / wall_high_ns - 1) END,
                CASE WHEN error_pct IS NOT NULL THEN 100 * (predicted_high_ns / nullif(greatest(wall_low_ns, 0), 0) - 1) END, '%', NULL,
                coalesce(
                    error_reason,
                    CASE WHEN replayed_time_pct < 80 THEN format('only {:.1f} % of the recorded time is replayed', replayed_time_pct) END
                )
            ),
            (
                'time', 'error, replayed only', 'error', CASE WHEN error_pct IS NULL THEN 'withheld' ELSE 'valid' END,
                replayed_error_pct, NULL, NULL, '%', NULL, error_reason
            ),
            (
                'time', 'busy share', 'share', CASE WHEN measured_busy_ns IS NOT NULL THEN 'measured' ELSE 'predicted' END,
                busy_share_pct, NULL, NULL, '%',
                CASE
                    WHEN exchanging THEN 'trace ' || trace || ', without waits for other ranks'
                    WHEN measured_busy_ns IS NOT NULL THEN 'measurement'
                    ELSE 'predicted'
                END,
                status || coalesce(CASE status WHEN 'host bound' THEN ': less than 80 %' END, '')
            ),
            (
                'time', 'clock, model', 'clock', 'measured', model_mhz, NULL, NULL, 'MHz', 'measurement',
                CASE WHEN model_mhz IS NULL THEN 'no clock was measured' END
            ),
            (
                'time', 'clock, replay', 'clock', 'measured', replay_mhz, NULL, NULL, 'MHz', 'replays, while timed',
                CASE
                    WHEN replay_mhz IS NULL THEN 'no replay recorded it'
                    WHEN abs(replay_mhz / model_mhz - 1) > 0.02
                        THEN
                            format('{:+.1f} % of that of the model: ', 100 * (replay_mhz / model_mhz - 1))
                            || CASE WHEN clock_ns <> 0 THEN 'see lower clock' ELSE 'not corrected' END
                END
            ),
            (
                'energy', 'kernels above gap', 'addend', 'predicted', above_gap_mj - inherited_mj - inferred_mj,
                above_gap_mj - inherited_mj - inferred_mj - above_gap_half_mj,
                above_gap_mj - inherited_mj - inferred_mj + above_gap_half_mj, 'mJ', 'replays',
                CASE WHEN above_gap_mj IS NULL THEN energy_error_reason ELSE format('{:.1f} % of the kernel time', powered_time_pct) END
            ),
            (
                'energy', 'above gap, inherited calls', 'addend', 'predicted', inherited_mj, NULL, NULL, 'mJ', 'replays',
                'calls taken from the same launches elsewhere'
            ),
            (
                'energy', 'above gap, inferred calls', 'addend', 'predicted', inferred_mj, NULL, NULL, 'mJ', 'replays',
                'calls found by trying'
            ),
            (
                'energy', 'lower clock', 'addend', 'predicted', clock_mj, NULL, NULL, 'mJ', 'replays',
                CASE WHEN clock_mj <> 0 THEN 'kernels that the power cap slows down, at the clock of the model' END
            ),
            (
                'energy', 'gap', 'addend', 'predicted', gap_mj, gap_mj - gap_half_mj, gap_mj + gap_half_mj, 'mJ', 'replays',
                coalesce(format('{:.1f} W for the predicted time', gap_power_w), 'the power of gaps was not measured')
            ),
            (
                'energy', 'waiting for the host', 'addend', CASE status WHEN 'host bound' THEN 'observed' ELSE 'left out' END,
                CASE WHEN waiting_ns IS NOT NULL THEN waiting_mj END, NULL, NULL, 'mJ',
                CASE WHEN context_power_w IS NULL THEN 'gap power' ELSE 'context power' END,
                CASE
                    WHEN status <> 'host bound' THEN NULL
                    WHEN waiting_ns IS NULL THEN error_reason
                    ELSE coalesce(format('{:.1f} W for the observed wait', coalesce(context_power_w, gap_power_w)), 'no power is known')
                END
            ),
            (
                'energy', 'unreplayed above gap', 'addend, not replayed', 'estimate', unpowered_mj, NULL, NULL, 'mJ', 'estimate',
                'at the mean power of the kernels with an energy'
            ),
            (
                'energy', 'predicted, replayed only', 'total', 'predicted', predicted_replayed_mj, NULL, NULL, 'mJ', NULL,
                'without the unreplayed'
            ),
            (
                'energy', 'predicted', 'total', CASE WHEN powered_time_pct < 80 THEN 'estimate' ELSE 'predicted' END, predicted_mj,
                predicted_low_mj, predicted_high_mj, 'mJ', NULL,
                CASE WHEN predicted_mj IS NULL THEN energy_error_reason WHEN waiting_ns IS NOT NULL THEN 'with the observed wait' END
            ),
            (
                'energy', 'measured', 'measured', 'measured', energy_mj, energy_low_mj, energy_high_mj, 'mJ', energy_method,
                CASE WHEN energy_mj IS NULL THEN energy_error_reason END
            ),
            (
                'energy', 'error', 'error', CASE WHEN energy_error_pct IS NULL THEN 'withheld' ELSE 'valid' END, energy_error_pct,
                CASE WHEN energy_error_pct IS NOT NULL THEN 100 * (predicted_low_mj / energy_high_mj - 1) END,
                CASE WHEN energy_error_pct IS NOT NULL THEN 100 * (predicted_high_mj / nullif(greatest(energy_low_mj, 0), 0) - 1) END, '%', NULL,
                coalesce(
                    energy_error_reason,
                    CASE WHEN board <> energy_board THEN format('replays on another board: {}, not {}', energy_board, board) END
                )
            ),
            (
                'energy', 'error, replayed only', 'error', CASE WHEN energy_error_pct IS NULL THEN 'withheld' ELSE 'valid' END,
                energy_replayed_error_pct, NULL, NULL, '%', NULL, energy_error_reason
            ),
            (
                'energy', 'clock, replay', 'clock', 'measured', energy_mhz, NULL, NULL, 'MHz', 'replays, while energy was measured',
                CASE
                    WHEN energy_mhz IS NULL THEN 'no replay recorded it'
                    WHEN abs(energy_mhz / model_mhz - 1) > 0.02
                        THEN
                            format('{:+.1f} % of that of the model: ', 100 * (energy_mhz / model_mhz - 1))
                            || CASE WHEN clock_mj <> 0 THEN 'see lower clock' ELSE 'not corrected' END
                END
            ),
            (
                'above gap', 'predicted', 'total', CASE WHEN powered_time_pct < 80 THEN 'estimate' ELSE 'predicted' END, above_gap_all_mj,
                CASE WHEN powered_time_pct >= 80 THEN above_gap_all_mj - above_gap_half_mj END,
                CASE WHEN powered_time_pct >= 80 THEN above_gap_all_mj + above_gap_half_mj END, 'mJ', 'replays', 'with the unreplayed'
            ),
            (
                'above gap', 'measured', 'measured', 'measured', above_gap_measured_mj,
                above_gap_measured_mj - above_gap_measured_half_mj, above_gap_measured_mj + above_gap_measured_half_mj, 'mJ',
                energy_method, coalesce('less gap power for the wall time', above_gap_reason)
            ),
            (
                'above gap', 'error', 'error', CASE WHEN above_gap_error_pct IS NULL THEN 'withheld' ELSE 'valid' END,
                above_gap_error_pct,
                CASE
                    WHEN above_gap_error_pct IS NOT NULL
                        THEN
                            100 * (
                                (above_gap_all_mj - above_gap_half_mj)
                                / nullif(greatest(above_gap_measured_mj + above_gap_measured_half_mj, 0), 0) - 1
                            )
                END,
                CASE
                    WHEN above_gap_error_pct IS NOT NULL
                        THEN
                            100 * (
                                (above_gap_all_mj + above_gap_half_mj)
                                / nullif(greatest(above_gap_measured_mj - above_gap_measured_half_mj, 0), 0) - 1
                            )
                END,
                '%', NULL, above_gap_reason
            ),
            (
                'above gap', 'measured, waiting at context power', 'measured, other', 'measured', above_waiting_measured_mj,
                NULL, NULL, 'mJ', energy_method, 'less gap power for the predicted time and context power for the wait'
            ),
            (
                'above gap', 'error, waiting at context power', 'error',
                CASE WHEN above_waiting_error_pct IS NULL THEN 'withheld' ELSE 'valid' END, above_waiting_error_pct, NULL, NULL, '%', NULL, above_gap_reason
            )
        ]::STRUCT(
            section VARCHAR, term VARCHAR, "role" VARCHAR, "status" VARCHAR, "value" DOUBLE, low DOUBLE, high DOUBLE, unit VARCHAR,
            source VARCHAR, note VARCHAR
        )[], recursive := true),
        status AS books
    FROM closure_of(launched)
)

SELECT
    trace,
    stage,
    mode,
    section,
    term,
    "role",
    CASE WHEN "value" IS NULL AND "status" NOT IN ('left out', 'withheld') THEN 'unknown' ELSE "status" END AS "status",
    "value",
    unit,
    low,
    high,
    source,
    note
FROM listed
WHERE
    (books = 'host bound' OR NOT ends_with(term, 'context power'))
    AND (note IS NOT NULL OR term <> 'waiting in collectives')
    AND ("value" <> 0 OR NOT (ends_with(term, 'inherited calls') OR ends_with(term, 'inferred calls')));
