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
--   device INTEGER: GPU.
--   start_ns BIGINT [ns]: Begin, relative to base_ns of the trace.
--   end_ns: as in kernels
--   span_ns BIGINT [ns]: Length of the window.
--   log VARCHAR: Name of the trace that holds the samples.
--   matched_by VARCHAR: How the GPU was recognised, as in power_logs.
--   method VARCHAR: What the energy is taken from: energy counter, or power.
--   period_ns BIGINT [ns]: What the readings resolve; shorter windows have no energy.
--   readings BIGINT: How many readings lie in the window.
--   coverage_pct DOUBLE [%]: Share of the window in which readings are no farther apart than five times the usual.
--   energy_mj DOUBLE [mJ]: Energy of the covered part of the window; NULL with a reason.
--   error_mj DOUBLE [mJ]: Half width of its 95 % interval, by what may have happened between readings; not the error of the meter.
--   mean_power_w DOUBLE [W]: Mean power over the covered part.
--   reason VARCHAR: Why there is no energy, or that it is of a part of the window only.
-- Example:
--   SELECT kind, name, span_ns, energy_mj, error_mj, mean_power_w, reason FROM window_power() LIMIT 10;
CREATE OR REPLACE MACRO window_power(source := '_power_windows') AS TABLE
-- Every step is per trace, and nothing is materialised, so that one trace can be asked for alone.
WITH windows AS NOT MATERIALIZED (
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
),

wide AS NOT MATERIALIZED (
    SELECT DISTINCT trace, series, a_ns, b_ns FROM windows WHERE series IS NOT NULL AND b_ns - a_ns >= period_ns
),

-- Each end once, with the interval that it falls into and how far.
ends AS NOT MATERIALIZED (
    SELECT DISTINCT trace, series, unnest([a_ns, b_ns]) AS t_ns FROM wide
),

-- In one order of time, and not by ASOF JOIN: that turns into a nested loop where DuckDB expects few windows.
merged AS NOT MATERIALIZED (
    SELECT
        l.trace,
        series,
        t_ns,
        0 AS is_end,
        {
            't_ns': t_ns, 'length_ns': length_ns, 'valid': valid, 'counted': counted, 'sample_step_ns': sample_step_ns, 'from_w': from_w,
            'to_w': to_w, 'swing_w': swing_w, 'place': place, 'covered_ns': covered_ns, 'energy_mj': energy_mj, 'variance': variance
        } AS i
    FROM _power_intervals AS p
    INNER JOIN (SELECT DISTINCT trace, series FROM power_logs WHERE series IS NOT NULL) AS l USING (series)
    UNION ALL
    SELECT trace, series, t_ns, 1 AS is_end, NULL AS i FROM ends
),

found AS NOT MATERIALIZED (
    SELECT
        trace,
        series,
        t_ns,
        last_value(i IGNORE NULLS) OVER (
            PARTITION BY trace, series ORDER BY t_ns, is_end ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS i
    FROM merged
    QUALIFY is_end = 1
),

placed AS NOT MATERIALIZED (
    SELECT
        trace,
        series,
        t_ns,
        i.place,
        i.counted,
        CASE WHEN i.valid THEN t_ns - i.t_ns ELSE 0 END AS inside_ns,
        CASE WHEN i.valid THEN (t_ns - i.t_ns) / i.length_ns ELSE 0 END AS share,
        i.covered_ns + inside_ns AS covered_ns,
        i.energy_mj
        + CASE
            WHEN i.valid THEN 1e-6 * (i.from_w * inside_ns + (i.to_w - i.from_w) * inside_ns::DOUBLE ** 2 / (2 * i.length_ns)) ELSE 0
        END AS energy_mj,
        i.variance,
        CASE WHEN i.valid THEN (1e-6 * (i.to_w - i.from_w) * i.length_ns) ** 2 ELSE 0 END AS jump,
        CASE
            WHEN i.valid AND i.counted
                THEN (1e-6 * i.swing_w * i.length_ns * share * (1 - share)) ** 2 / 3 + (1e-6 * i.from_w * i.sample_step_ns) ** 2 / 12
            ELSE 0
        END AS end_variance
    FROM found
),

summed AS (
    SELECT
        w.trace,
        w.series,
        w.a_ns,
        w.b_ns,
        coalesce(b.covered_ns, 0) - coalesce(a.covered_ns, 0) AS covered_ns,
        coalesce(b.place, 0) - coalesce(a.place, 0) AS readings,
        coalesce(b.energy_mj, 0) - coalesce(a.energy_mj, 0) AS energy_mj,
        CASE
            WHEN b.counted THEN coalesce(a.end_variance, 0) + b.end_variance
            WHEN a.place = b.place THEN b.jump / 12
            -- Whole intervals between the two ends, less what of the first one lies before the window, and what of the last one lies in it.
            ELSE
                b.variance - coalesce(a.variance, 0) - coalesce(a.jump, 0) / 12
                + coalesce(a.jump * ((1 - a.share) ** 3 / 3 - (1 - a.share) ** 4 / 4), 0)
                + b.jump * (b.share ** 3 / 3 - b.share ** 4 / 4)
        END AS variance
    FROM wide AS w
    LEFT JOIN placed AS a ON w.trace = a.trace AND w.series = a.series AND w.a_ns = a.t_ns
    LEFT JOIN placed AS b ON w.trace = b.trace AND w.series = b.series AND w.b_ns = b.t_ns
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
        WHEN w.period_ns IS NULL THEN 'too few readings to tell how far apart they are'
        WHEN coalesce(s.covered_ns, 0) <= 0 THEN 'no readings during the window'
        WHEN s.covered_ns < 0.9995 * (w.end_ns - w.start_ns)
            THEN format(
                'readings cover {:.1f} % of the window, and the energy is that of this part',
                100::DOUBLE * s.covered_ns / (w.end_ns - w.start_ns)
            )
    END AS reason
FROM windows AS w
LEFT JOIN summed AS s ON w.trace = s.trace AND w.series = s.series AND w.a_ns = s.a_ns AND w.b_ns = s.b_ns
ORDER BY w.trace, w.start_ns, w.end_ns DESC, w.device, w.kind, w.name, w.series;
