-- The energy of stretches of time, from power samples of the same time and GPU, with the error that the sampling implies.
--
-- Without an argument: of each trace, of each stretch of launches of one phase, and of each range. `FROM window_power('selection')` takes any
-- relation with trace, kind, name, device, start_ns and end_ns, such as launches.
--
-- Power is taken to run in a straight line from reading to reading; between two steps of an energy counter it is constant, and the energy exact.
-- `error_mj` is 1.96 times the root of the summed variances of the two ends of the window and of all readings in between. What happens faster than
-- the readings is not seen, and not in the error.
--
-- Arguments:
--   source: a relation with trace, kind, name, device, start_ns and end_ns; without it, traces, phases and ranges.
-- Columns:
--   trace: as in kernels
--   kind VARCHAR: Kind of the window, as given.
--   name VARCHAR: Name of the window, as given.
--   device: as in power_logs
--   start_ns BIGINT [ns]: Begin, relative to base_ns of the trace.
--   end_ns: as in kernels
--   span_ns BIGINT [ns]: Length of the window.
--   log, matched_by, method: as in power_logs
--   period_ns BIGINT [ns]: What the readings resolve; shorter windows have no energy.
--   readings BIGINT: How many readings lie in the window.
--   coverage_pct DOUBLE [%]: Share of the window in which readings are no farther apart than five times the usual.
--   energy_mj DOUBLE [mJ]: Energy of the covered part of the window; NULL with a reason.
--   error_mj DOUBLE [mJ]: Half width of its 95 % interval, by what may have happened between readings; not the error of the meter.
--   mean_power_w DOUBLE [W]: Mean power over the covered part.
--   reason VARCHAR: Why the energy is unknown, or that it covers a part of the window only.
-- Example:
--   SELECT kind, name, span_ns, energy_mj, error_mj, mean_power_w, reason FROM window_power() LIMIT 10;
CREATE OR REPLACE MACRO window_power(source := '_power_windows') AS TABLE
-- Every step is per trace, and nothing is materialised, so that one trace can be asked for alone.
WITH _windows AS NOT MATERIALIZED (
    SELECT
        w.trace,
        w.kind,
        w.name,
        l.device,
        w.start_ns,
        w.end_ns,
        w.start_ns + l.offset_ns AS a_ns,
        w.end_ns + l.offset_ns AS b_ns,
        l.series,
        l.log,
        l.matched_by,
        l.method,
        CASE WHEN l.method = 'energy counter' THEN coalesce(l.counter_step_ns, l.period_ns) ELSE l.period_ns END AS period_ns,
        l.reason
    FROM query_table(source) AS w
    INNER JOIN power_logs AS l ON w.trace = l.trace AND (w.device = l.device OR w.device IS NULL OR l.device IS NULL)
    WHERE w.start_ns IS NOT NULL AND w.end_ns > w.start_ns
)

SELECT
    w.trace,
    w.kind,
    w.name,
    w.device,
    w.start_ns,
    w.end_ns,
    w.end_ns - w.start_ns AS span_ns,
    w.log,
    w.matched_by,
    w.method,
    w.period_ns,
    s.readings,
    100::DOUBLE * s.covered_ns / (w.end_ns - w.start_ns) AS coverage_pct,
    CASE WHEN s.covered_ns > 0 THEN s.energy_mj END AS energy_mj,
    CASE WHEN s.covered_ns > 0 THEN 1.96 * sqrt(greatest(0, s.variance)) END AS error_mj,
    CASE WHEN s.covered_ns > 0 THEN 1e6 * s.energy_mj / s.covered_ns END AS mean_power_w,
    CASE
        WHEN w.reason IS NOT NULL THEN w.reason
        WHEN w.end_ns - w.start_ns < w.period_ns
            THEN format('a window of {:.3f} ms is shorter than the {:.1f} ms between readings', (w.end_ns - w.start_ns) / 1e6, w.period_ns / 1e6)
        WHEN w.period_ns IS NULL THEN 'too few readings to know the sampling period'
        WHEN coalesce(s.covered_ns, 0) <= 0 THEN 'no readings during the window'
        WHEN s.covered_ns < 0.9995 * (w.end_ns - w.start_ns)
            THEN format(
                'readings cover {:.1f} % of the window, and the energy is that of this part',
                100::DOUBLE * s.covered_ns / (w.end_ns - w.start_ns)
            )
    END AS reason
FROM _windows AS w
LEFT JOIN _window_energy('_windows') AS s ON w.trace = s.trace AND w.series = s.series AND w.a_ns = s.a_ns AND w.b_ns = s.b_ns
ORDER BY w.trace, w.start_ns, w.end_ns DESC, w.device, w.kind, w.name, w.series;
