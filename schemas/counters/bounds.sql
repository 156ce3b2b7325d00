-- What each rule of bound_rules says limits a profiled launch, with its inputs.
--
-- What each rule of `bound_rules` says limits a profiled launch, with its inputs. The thresholds are the table's, the logic stands here. NULL: the
-- rule lacks an input, and does not guess.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id: as in kernels
--   short_name VARCHAR: Short form of the kernel name for tables.
--   rule VARCHAR: Name of the rule, in bound_rules.
--   version INTEGER: Version of the rule.
--   verdict VARCHAR: compute, memory, balanced, latency or high (close to a peak); NULL where the rule lacks an input.
--   detail VARCHAR: What the verdict is put down to: DRAM, L2, L1, compute, small grid.
--   compute_pct DOUBLE [%]: Compute (SM) throughput of its peak (sm__throughput).
--   memory_pct DOUBLE [%]: Memory throughput of its peak: the highest of L1, L2 and DRAM (gpu__compute_memory_throughput).
--   dram_pct DOUBLE [%]: DRAM throughput of its peak (gpu__dram_throughput, else dram__throughput).
--   l1_pct DOUBLE [%]: L1/TEX cache throughput of its peak.
--   l2_pct DOUBLE [%]: L2 cache throughput of its peak.
--   waves DOUBLE: Waves of blocks per multiprocessor.
--   precision VARCHAR: Precision that the launch did most operations in.
--   operation VARCHAR: Operation that it did most of.
--   intensity DOUBLE [FLOP/byte]: Intensity of that operation against DRAM.
--   ridge DOUBLE [FLOP/byte]: Its ridge.
--   thresholds MAP(VARCHAR, DOUBLE): Parameters of the rule.
--   duration_ns DOUBLE [ns]: Duration under the profiler (gpu__time_duration.sum); with other clocks and caches than in a running program.
--   trace_id: as in kernels
CREATE OR REPLACE VIEW bounds AS
WITH rules AS (
    SELECT rule, version, map_from_entries(list((parameter, value) ORDER BY parameter)) AS p
    FROM bound_rules
    GROUP BY rule, version
),

-- The operation that a launch did most of, against DRAM; of equal ones that with the lower peak (dense, not sparse).
points AS (
    SELECT trace, trace_id, launch_index, precision, operation, intensity, ridge
    FROM ncu_roofline
    WHERE level = 'dram' AND intensity IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY trace, trace_id, launch_index
        ORDER BY flops_per_second DESC, peak_flops_per_second NULLS LAST, operation
    ) = 1
),

judged AS (
    SELECT
        c.trace,
        c.launch_index,
        c.signature_id,
        c.short_name,
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
                    q.intensity >= r.p['ridge']
                    AND (c.compute_pct >= r.p['ratio'] * c.memory_pct OR c.compute_pct - c.memory_pct >= r.p['margin'])
                    THEN 'compute'
                WHEN
                    coalesce(q.intensity, 0) < r.p['ridge']
                    AND (c.memory_pct >= r.p['ratio'] * c.compute_pct OR c.memory_pct - c.compute_pct >= r.p['margin'])
                    THEN 'memory'
                WHEN c.compute_pct + c.memory_pct IS NOT NULL THEN 'balanced'
            END
            WHEN 'roofline' THEN CASE
                WHEN q.intensity < r.p['ridge_factor'] * q.ridge THEN 'memory'
                WHEN q.intensity >= r.p['ridge_factor'] * q.ridge THEN 'compute'
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
        r.p AS thresholds,
        c.duration_ns,
        c.compute_pct,
        c.memory_pct,
        c.dram_pct,
        c.l1_pct,
        c.l2_pct,
        c.waves,
        q.precision,
        q.operation,
        q.intensity,
        q.ridge,
        c.trace_id
    FROM launch_counters AS c
    LEFT JOIN points AS q ON c.trace = q.trace AND c.trace_id = q.trace_id AND c.launch_index = q.launch_index
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
        WHEN rule = 'ncu' AND verdict IN ('memory', 'high') AND memory_pct > compute_pct THEN CASE greatest(l1_pct, l2_pct, dram_pct)
            WHEN dram_pct THEN 'DRAM'
            WHEN l2_pct THEN 'L2'
            WHEN l1_pct THEN 'L1'
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
