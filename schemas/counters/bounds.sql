-- What each rule of `bound_rules` says limits a profiled launch, with its inputs.
--
-- The thresholds are the table's, the logic is here. A rule that lacks an input does not guess.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id, short_name: as in kernels
--   rule, version: as in bound_rules
--   verdict VARCHAR: compute, memory, balanced, latency or high (close to a peak); NULL where the rule lacks an input.
--   detail VARCHAR: What the verdict is put down to: DRAM, L2, L1, compute, small grid.
--   compute_pct, memory_pct, dram_pct, l1_pct, l2_pct, waves: as in launch_counters
--   precision VARCHAR: Precision that the launch did most operations in.
--   operation VARCHAR: Operation that it did most of.
--   intensity DOUBLE [FLOP/byte]: Intensity of that operation against DRAM.
--   ridge: as in ncu_roofline
--   thresholds MAP(VARCHAR, DOUBLE): Parameters of the rule.
--   duration_ns: as in launch_counters
--   trace_id: as in kernels
-- Example:
--   SELECT short_name, verdict, detail, compute_pct, memory_pct FROM bounds WHERE rule = 'ncu' ORDER BY duration_ns DESC;
CREATE OR REPLACE VIEW bounds AS
WITH rules AS (
    SELECT rule, version, map_from_entries(list((parameter, value) ORDER BY parameter)) AS p
    FROM bound_rules
    GROUP BY rule, version
),

judged AS (
    SELECT
        c.*,
        o.precision,
        o.operation,
        o.intensity,
        o.ridge,
        r.rule,
        r.version,
        CASE r.rule
            WHEN 'ncu' THEN CASE
                WHEN c.compute_pct >= r.p['high'] OR c.memory_pct >= r.p['high'] THEN 'high'
                WHEN c.compute_pct < r.p['low'] AND c.memory_pct < r.p['low'] THEN 'latency'
                WHEN abs(c.compute_pct - c.memory_pct) < r.p['difference'] THEN 'balanced'
                WHEN c.compute_pct > c.memory_pct THEN 'compute'
                WHEN c.compute_pct < c.memory_pct THEN 'memory'
            END
            WHEN 'sm_dram' THEN CASE
                WHEN c.compute_pct - c.dram_pct > r.p['margin'] THEN 'compute'
                WHEN c.dram_pct - c.compute_pct > r.p['margin'] THEN 'memory'
                WHEN c.dram_pct - c.compute_pct IS NOT NULL THEN 'balanced'
            END
            WHEN 'report' THEN CASE
                WHEN c.compute_pct < r.p['low'] AND c.memory_pct < r.p['low'] THEN 'balanced'
                WHEN
                    o.intensity >= r.p['ridge']
                    AND (c.compute_pct >= r.p['ratio'] * c.memory_pct OR c.compute_pct - c.memory_pct >= r.p['margin'])
                    THEN 'compute'
                WHEN
                    coalesce(o.intensity, 0) < r.p['ridge']
                    AND (c.memory_pct >= r.p['ratio'] * c.compute_pct OR c.memory_pct - c.compute_pct >= r.p['margin'])
                    THEN 'memory'
                WHEN c.compute_pct + c.memory_pct IS NOT NULL THEN 'balanced'
            END
            WHEN 'roofline' THEN CASE
                WHEN o.intensity < r.p['ridge_factor'] * o.ridge THEN 'memory'
                WHEN o.intensity >= r.p['ridge_factor'] * o.ridge THEN 'compute'
            END
            WHEN 'olcf' THEN CASE
                WHEN greatest(c.compute_pct, c.memory_pct) <= r.p['high'] AND c.compute_pct + c.memory_pct IS NOT NULL THEN 'latency'
                WHEN c.compute_pct >= c.memory_pct THEN 'compute'
                WHEN c.compute_pct < c.memory_pct THEN 'memory'
            END
            WHEN 'hotkernel' THEN CASE
                WHEN greatest(c.compute_pct, c.dram_pct) < r.p['high'] AND c.compute_pct + c.dram_pct IS NOT NULL THEN 'latency'
                WHEN c.compute_pct > c.dram_pct THEN 'compute'
                WHEN c.compute_pct <= c.dram_pct THEN 'memory'
            END
            WHEN 'dhrv' THEN CASE
                WHEN c.compute_pct > r.p['compute_high'] AND c.memory_pct IS NOT NULL THEN 'compute'
                WHEN c.memory_pct > r.p['memory_high'] AND c.compute_pct < r.p['compute_low'] THEN 'memory'
                WHEN c.memory_pct < r.p['memory_low'] AND c.compute_pct < r.p['compute_low'] THEN 'latency'
                WHEN c.compute_pct + c.memory_pct IS NOT NULL THEN 'balanced'
            END
        END AS verdict,
        c.waves < r.p['small_grid'] AS small_grid,
        r.p AS thresholds
    FROM launch_counters AS c
    LEFT JOIN _main_operations AS o ON c.trace = o.trace AND c.trace_id = o.trace_id AND c.launch_index = o.launch_index
    CROSS JOIN rules AS r
)

SELECT
    trace,
    launch_index,
    signature_id,
    short_name,
    rule,
    version,
    verdict,
    CASE
        WHEN rule = 'ncu' AND verdict = 'latency' AND small_grid THEN 'small grid'
        WHEN rule = 'ncu' AND verdict IN ('memory', 'high') AND memory_pct > compute_pct THEN CASE
            WHEN l1_pct + l2_pct + dram_pct IS NULL THEN NULL
            WHEN dram_pct >= greatest(l1_pct, l2_pct) THEN 'DRAM'
            WHEN l2_pct >= l1_pct THEN 'L2'
            ELSE 'L1'
        END
        WHEN rule = 'ncu' AND verdict = 'high' THEN 'compute'
    END AS detail,
    compute_pct,
    memory_pct,
    dram_pct,
    l1_pct,
    l2_pct,
    waves,
    precision,
    operation,
    intensity,
    ridge,
    thresholds,
    duration_ns,
    trace_id
FROM judged;
