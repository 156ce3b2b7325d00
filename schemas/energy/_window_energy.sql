-- The energy of each window and the variance of it, from what lies before its two ends (_power_intervals). `windows` names a relation with trace,
-- series, a_ns and b_ns, on the clock of the samples, and period_ns: windows that are shorter are left out.
CREATE OR REPLACE MACRO _window_energy(windows) AS TABLE
-- Every step is per trace, and nothing is materialised, so that one trace can be asked for alone.
WITH wide AS NOT MATERIALIZED (
    SELECT DISTINCT trace, series, a_ns, b_ns FROM query_table(windows) WHERE series IS NOT NULL AND b_ns - a_ns >= period_ns
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
)

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
LEFT JOIN placed AS b ON w.trace = b.trace AND w.series = b.series AND w.b_ns = b.t_ns;
