-- What costs more per `key` of `keyed` than sums do: exact quantiles, rates, energy, and replayed against recorded time, each over the
-- launches for which it is known.
SELECT * EXCLUDE (quantiles_ns), quantiles_ns[1] AS p50_ns, quantiles_ns[2] AS p95_ns
FROM (
    SELECT
        key,
        quantile_cont(duration_ns, [0.5, 0.95]) AS quantiles_ns,  -- at once: each call keeps all durations
        sum(flops) / nullif(sum(duration_ns) FILTER (flops IS NOT NULL), 0) / 1e3 AS tflops,
        sum(moved_bytes) / nullif(sum(duration_ns) FILTER (moved_bytes IS NOT NULL), 0) AS gbs,
        sum(energy_mj) AS energy_mj,
        sum(replay_ns) / nullif(sum(duration_ns) FILTER (replay_ns IS NOT NULL), 0) AS replay_ratio
    FROM keyed
    WHERE timing = 'timeline'
    GROUP BY key
);
