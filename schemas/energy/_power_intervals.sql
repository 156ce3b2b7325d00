-- What lies between two readings of a series of power samples, with everything before it summed up, so that a window costs two look-ups whatever its
-- length. An interval over five times the usual length is a hole, of which nothing is known. The variance of an interval between power readings is
-- that of a single jump at an unknown moment, (Δp·h)²/12; between steps of an energy counter the energy is exact.
CREATE OR REPLACE VIEW _power_intervals AS
WITH read AS (
    SELECT
        s.series,
        s.counts >= 3 AS counted,
        s.period_ns,
        s.counter_step_ns,
        s.sample_step_ns,
        coalesce(p.epoch_ns, p.ts_ns) AS t_ns,
        avg(p.power_w) AS power_w,
        max(p.energy_mj) AS energy_mj
    FROM power_samples AS p
    INNER JOIN _power_series AS s
        ON p.trace_id IS NOT DISTINCT FROM s.trace_id AND p.run_id IS NOT DISTINCT FROM s.run_id AND p.source = s.source
        AND p.device IS NOT DISTINCT FROM s.device AND p.gpu IS NOT DISTINCT FROM s.gpu
    WHERE CASE WHEN s.counts >= 3 THEN p.energy_mj ELSE p.power_w END IS NOT NULL
    GROUP BY ALL
),

stepped AS (
    SELECT *, lag(energy_mj) OVER (PARTITION BY series ORDER BY t_ns) AS before_mj FROM read
),

edges AS (
    SELECT
        series,
        counted,
        t_ns,
        CASE WHEN counted THEN coalesce(counter_step_ns, sample_step_ns) ELSE period_ns END AS period_ns,
        sample_step_ns,
        power_w,
        energy_mj,
        lead(t_ns) OVER in_time - t_ns AS length_ns,
        lead(power_w) OVER in_time AS power_after_w,
        lead(energy_mj) OVER in_time - energy_mj AS step_mj
    FROM stepped
    WHERE NOT counted OR energy_mj <> before_mj
    WINDOW in_time AS (PARTITION BY series ORDER BY t_ns)
),

known AS (
    SELECT
        *,
        length_ns <= 5 * period_ns AND (NOT counted OR step_mj >= 0) AS valid,
        CASE WHEN counted THEN 1e6 * step_mj / length_ns ELSE power_w END AS from_w,
        CASE WHEN counted THEN 1e6 * step_mj / length_ns ELSE power_after_w END AS to_w
    FROM edges
),

swinging AS (
    SELECT
        *,
        greatest(
            abs(from_w - CASE WHEN lag(t_ns) OVER in_time IS NULL THEN from_w ELSE lag(from_w) OVER in_time END),
            abs(CASE WHEN lead(t_ns) OVER in_time IS NULL THEN from_w ELSE lead(from_w) OVER in_time END - from_w)
        ) AS swing_w
    FROM known
    WINDOW in_time AS (PARTITION BY series ORDER BY t_ns)
)

SELECT
    series,
    counted,
    t_ns,
    length_ns,
    valid IS TRUE AS valid,
    period_ns,
    sample_step_ns,
    from_w,
    to_w,
    swing_w,
    row_number() OVER (PARTITION BY series ORDER BY t_ns) AS place,
    try_cast(coalesce(sum(CASE WHEN valid THEN length_ns END) OVER before_interval, 0) AS BIGINT) AS covered_ns,
    coalesce(sum(CASE WHEN valid THEN 1e-6 * (from_w + to_w) / 2 * length_ns END) OVER before_interval, 0) AS energy_mj,
    coalesce(sum(CASE WHEN valid AND NOT counted THEN (1e-6 * (to_w - from_w) * length_ns) ** 2 / 12 END) OVER before_interval, 0) AS variance
FROM swinging
WINDOW before_interval AS (PARTITION BY series ORDER BY t_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);
