-- Traces in which nearly everything is as long, as frequent or as early as something else: whatever an answer picks, another choice is as good.
INSERT INTO traces BY NAME
SELECT
    'id ' || name AS trace_id, name, run, kind, source, rank, world_size, job, base_ns, clock, is_primary, if(name = 'counters after', 'profiled', 'timeline') AS primary_timing,
    'epoch' AS era, 0 AS window_start_ns, 100000 AS window_end_ns, launches, TIMESTAMP '2026-11-01' AS ingested_at
FROM (VALUES
    ('before', 'one', 'timeline', 'pytorch', NULL, NULL, NULL, 0, 'epoch', NULL, 48),
    ('after', 'two', 'timeline', 'pytorch', NULL, NULL, NULL, 0, 'epoch', NULL, 48),
    ('repeats', 'three', 'timeline', 'pytorch', NULL, NULL, NULL, 0, 'epoch', NULL, 48),
    ('rank0', 'job', 'timeline', 'pytorch', 0, 2, 'job', 0, 'epoch', NULL, 24),
    ('rank1', 'job', 'timeline', 'pytorch', 1, 2, 'job', 0, 'epoch', NULL, 24),
    ('graph', 'one', 'timeline', 'pytorch', NULL, NULL, NULL, 0, 'epoch', NULL, 48),
    ('printed', 'four', 'timeline', 'nsys', NULL, NULL, NULL, NULL, NULL, false, 10),
    ('kept', 'four', 'timeline', 'nsys', NULL, NULL, NULL, NULL, NULL, NULL, 10),
    ('kept too', 'four', 'timeline', 'nsys', NULL, NULL, NULL, NULL, NULL, NULL, 10),
    ('counters', 'one', 'profiled', 'ncu', NULL, NULL, NULL, NULL, NULL, false, 12),
    ('counters after', 'five', 'profiled', 'ncu', NULL, NULL, NULL, NULL, NULL, NULL, 12)
) AS t (name, run, kind, source, rank, world_size, job, base_ns, clock, is_primary, launches);

-- Two traces are as surely prints of a third.
INSERT INTO trace_links BY NAME
SELECT
    'id kept' AS trace_id, 'id ' || name AS other_id, 'print' AS relation, 'sums' AS method, 0.5 AS score, 'equal sums' AS evidence
FROM (VALUES ('printed'), ('kept too')) AS t (name);

INSERT INTO trace_files BY NAME SELECT trace_id, 0 AS file_index, name || '.json' AS path FROM traces;

INSERT INTO ingest_reports BY NAME
SELECT trace_id, 0 AS file_index, 'skipped' AS outcome, 'reason ' || i AS reason, 7 AS n FROM traces, range(3) AS r (i);

INSERT INTO trace_tags BY NAME SELECT trace_id, 'key' || i AS key, 'same' AS value FROM traces, range(3) AS r (i);

-- Two processes number their GPUs on their own.
INSERT INTO devices BY NAME
SELECT
    trace_id, process, 0 AS device, vendor, 'NVIDIA ' || model AS name, 'sm_90' AS arch,
    '{"uuid": "GPU-' || process || '"}' AS properties
FROM traces, (VALUES ('1', 'nvidia', 'H100 PCIe'), ('2', 'nvidia', 'H100 80GB HBM3')) AS d (process, vendor, model);

-- Pairs of one match_name, a category and an operation each.
INSERT INTO kernel_names BY NAME
SELECT
    'n' || i AS name_id,
    CASE i WHEN 8 THEN 'ncclDevKernel_AllReduce_RING_LL' WHEN 9 THEN 'ncclDevKernel_AllGather_TREE_LL' ELSE 'kernel_' || i END
    || CASE WHEN i IN (6, 7) THEN '_float16_copy_kernel' ELSE '' END AS name,
    'kernel_' || i AS short_name,
    'match_' || (i // 2) AS match_name,
    CASE i WHEN 10 THEN 'memcpy' WHEN 11 THEN 'memset' ELSE 'kernel' END AS kind,
    ['GEMM', 'REDUCTION', 'ELEMENTWISE', 'SOFTMAX', 'NORMALIZATION', 'INDEXING', 'COPY', 'COPY', 'COMMUNICATION', 'COMMUNICATION', 'MEMCPY', 'MEMSET'][i + 1]
        AS category,
    'library_' || (i % 4) AS library, 'family_' || (i % 3) AS family, 'operation_' || (i % 4) AS operation,
    CASE WHEN i % 2 = 0 THEN 'fp16' ELSE 'bf16' END AS dtype
FROM range(12) AS r (i);

INSERT INTO op_calls BY NAME
SELECT
    'c' || i AS call_id, 'aten::op' || (i // 2) AS op, '[[8, 8]]' AS input_dims, '[[' || i || ']]' AS input_strides, '["float"]' AS input_dtypes,
    '["' || i || '"]' AS scalars
FROM range(8) AS r (i);

-- Two of each name: the second came from another trace (before/after), so that names and operators have to match.
INSERT INTO signatures BY NAME
SELECT
    's' || i || side AS signature_id, n.kind, n.name_id, 8 AS grid_x, 1 AS grid_y, 1 AS grid_z, 64 AS block_x, 1 AS block_y, 1 AS block_z,
    CASE WHEN n.kind <> 'kernel' THEN 4096 END AS bytes,
    CASE WHEN i < 8 AND side <> 'g' THEN 'c' || i END AS call_id, CASE WHEN i < 8 AND side <> 'g' THEN 'aten::op' || (i // 2) END AS op,
    CASE WHEN i < 8 AND side <> 'g' THEN '[[8, 8]]' END AS input_dims, CASE WHEN i < 8 AND side <> 'g' THEN '["float"]' END AS input_dtypes,
    CASE WHEN i < 8 AND side <> 'g' THEN '[[' || i || ']]' END AS input_strides, CASE WHEN i < 8 AND side <> 'g' THEN '["' || i || '"]' END AS scalars,
    CASE WHEN i < 8 AND side <> 'g' THEN 'call' ELSE 'launch' END AS level, 8 AS total_blocks, 64 AS threads_per_block,
    CASE WHEN n.kind = 'kernel' THEN 'key ' || (i // 2) END AS launch_key,
    1e6 AS flops, 2e3 AS moved_bytes, 'shapes' AS work_method, n.category, n.dtype
FROM range(12) AS r (i), (VALUES ('b'), ('a'), ('g')) AS sides (side)
INNER JOIN kernel_names AS n ON n.name_id = 'n' || i;

-- Two streams whose launches begin and end together, with a pause behind each pair.
INSERT INTO launches BY NAME
SELECT
    t.trace_id, i AS launch_index, s.kind, 'timeline' AS timing, s.signature_id, '1' AS process, 0 AS device, i % 2 AS stream,
    1000 * (i // 2) AS start_ns, 1000 * (i // 2) + 400 AS end_ns, 400 AS duration_ns, i AS correlation_id, i AS api_index,
    'launch' || (i % 2) AS api_call, CASE WHEN t.name = 'graph' THEN 'graph' ELSE 'linked' END AS launch_status,
    1000 * (i // 2) - CASE WHEN i % 2 = 0 THEN 100 ELSE 700 END AS launch_start_ns, 50 AS launch_duration_ns,
    i // 2 AS op_id, CASE WHEN i % 4 < 2 THEN 'decode' ELSE 'prefill' END AS phase, 'module ' || (i % 3) AS module,
    1024 * (1 + i % 2) AS shared_bytes, 32 AS registers, 0.5 AS occupancy,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN CASE s.name_id WHEN 'n8' THEN 'allreduce' ELSE 'allgather' END END AS collective,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN CASE WHEN i % 24 < 12 THEN 'Float' ELSE 'Int' END END AS collective_dtype,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN 64 END AS collective_in_elements,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN 64 END AS collective_out_elements,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN 2 END AS group_size,
    CASE WHEN s.name_id IN ('n8', 'n9') THEN '[0, 1]' END AS group_ranks,
    CASE WHEN t.name = 'after' AND i < 24 AND s.level = 'launch' AND s.kind = 'kernel' THEN 's' || (i % 4) || 'b' END AS inferred_id,
    CASE WHEN t.name = 'after' AND i < 24 AND s.level = 'launch' AND s.kind = 'kernel' THEN ['inherited', 'inferred'][1 + i % 2] END AS inferred_by,
    CASE WHEN t.name = 'repeats' THEN i // 12 END AS iteration, CASE WHEN t.name = 'repeats' THEN true END AS steady_state
FROM traces AS t, range(48) AS r (i)
INNER JOIN signatures AS s
    ON s.signature_id = 's' || (i % 12) || CASE t.name WHEN 'after' THEN 'a' WHEN 'graph' THEN 'g' ELSE 'b' END
WHERE t.kind = 'timeline' AND i < t.launches
UNION ALL BY NAME
SELECT
    t.trace_id, i AS launch_index, 'kernel' AS kind, 'profiled' AS timing,
    's' || (i % 6) || CASE t.name WHEN 'counters' THEN 'b' ELSE 'a' END AS signature_id, '1' AS process, 0 AS device, 400 AS duration_ns,
    'no_op' AS launch_status
FROM traces AS t, range(12) AS r (i)
WHERE t.kind = 'profiled';

INSERT INTO rollups BY NAME
SELECT
    trace_id, 'launches' AS origin, device, stream, signature_id, phase, timing, inferred_id, inferred_by, count(*) AS n, count(*) AS timed,
    sum(duration_ns)::BIGINT AS total_ns, min(duration_ns) AS min_ns, max(duration_ns) AS max_ns,
    sum(duration_ns::DOUBLE * duration_ns) AS sum_squares_ns2, 400 AS median_ns, MAP {138::SMALLINT: count(*)} AS histogram
FROM launches
GROUP BY ALL;

-- Sums of a report whose work counts elsewhere.
INSERT INTO rollups BY NAME
SELECT
    'id ' || name AS trace_id, 'report' AS origin, 's' || i || 'b' AS signature_id, 'timeline' AS timing, 3 AS n, 3 AS timed, 1200 AS total_ns,
    400 AS min_ns, 400 AS max_ns, nullif(name = 'printed', false) AS is_repeat
FROM range(6) AS r (i), (VALUES ('printed'), ('kept'), ('kept too')) AS t (name);

INSERT INTO ops BY NAME
SELECT
    trace_id, i // 2 * 2 + i % 2 AS op_id, 'aten::op' || (i % 2) AS name, 'c' || (i % 8) AS call_id, '1' AS process, 't' AS thread,
    2000 * (i // 2) AS start_ns, 900 AS duration_ns
FROM traces, range(24) AS r (i)
WHERE kind = 'timeline';

-- Two calls that begin and end together, one of which allocates, reach into the pauses.
INSERT INTO api_calls BY NAME
SELECT
    trace_id, 100 + i AS api_index, 'runtime' AS kind, ['cudaStreamSynchronize', 'cudaMalloc', 'cudaDeviceSynchronize'][1 + i % 3] AS name,
    '1' AS process, 't' AS thread, 1000 * (i // 3) AS start_ns, 950 AS duration_ns
FROM traces, range(24) AS r (i)
WHERE kind = 'timeline'
UNION ALL BY NAME
SELECT trace_id, api_index, 'runtime' AS kind, api_call AS name, '1' AS process, 't' AS thread, launch_start_ns AS start_ns, 50 AS duration_ns
FROM launches
WHERE timing = 'timeline';

-- Steps of two processes, and ranges of a workload, which begin together and do not end together.
INSERT INTO ranges BY NAME
SELECT
    'id before' AS trace_id, 2 * i + p AS range_id, 'user_annotation' AS kind, 'ProfilerStep#' || (2 * i + p) AS name, p::VARCHAR AS process,
    12000 * i - 200 AS start_ns, 6000 * (1 + p) AS duration_ns
FROM range(2) AS r (i), range(2) AS s (p)
UNION ALL BY NAME
SELECT
    'id ' || name AS trace_id, 10 + p AS range_id, 'user_annotation' AS kind, 'decode' AS name, p::VARCHAR AS process,
    -800 AS start_ns, 12000 * (1 + p) AS duration_ns
FROM (VALUES ('graph'), ('rank0'), ('rank1')) AS t (name), range(2) AS s (p)
UNION ALL BY NAME
SELECT
    'id rank0' AS trace_id, 20 + p AS range_id, 'nvtx' AS kind, 'range ' || p AS name, '1' AS process, 0 AS device, 100 AS start_ns, 5000 AS duration_ns
FROM range(4) AS s (p);

-- A counter is printed in two sections and collected in two passes, as exactly each time.
INSERT INTO metrics BY NAME
SELECT
    l.trace_id, l.launch_index, m.metric, m.value + section - 20 * (l.launch_index // 6 % 2) AS value, ['%', 'pct'][1 + section] AS unit, 0.1 AS precision,
    section AS pass
FROM launches AS l, range(2) AS r (section), (VALUES
    ('gpu__time_duration.sum', 400.0),
    ('sm__throughput.avg.pct_of_peak_sustained_elapsed', 70.0),
    ('gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed', 90.0),
    ('gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed', 50.0),
    ('dram__bytes.sum.per_second', 1e9),
    ('dram__bytes.sum.peak_sustained', 100.0),
    ('dram__cycles_elapsed.avg.per_second', 1e9),
    ('sm__cycles_elapsed.avg.per_second', 1e9),
    ('smsp__cycles_elapsed.avg.per_second', 1e9),
    ('my__counter.sum', 5.0)
) AS m (metric, value)
WHERE l.timing = 'profiled';

INSERT INTO metrics BY NAME
SELECT l.trace_id, l.launch_index, m.metric, m.value
FROM launches AS l, (VALUES ('f', 128.0), ('d', 64.0), ('h', 256.0)) AS t (letter, peak), LATERAL (VALUES
    ('sm__sass_thread_inst_executed_op_' || letter || 'fma_pred_on.sum.peak_sustained', peak),
    ('smsp__sass_thread_inst_executed_op_' || letter || 'add_pred_on.sum.per_cycle_elapsed', 0.0),
    ('smsp__sass_thread_inst_executed_op_' || letter || 'mul_pred_on.sum.per_cycle_elapsed', 0.0),
    ('smsp__sass_thread_inst_executed_op_' || letter || 'fma_pred_on.sum.per_cycle_elapsed', 1.0)
) AS m (metric, value)
WHERE l.timing = 'profiled';

-- Instances of a counter, without their sum.
INSERT INTO metrics BY NAME
SELECT trace_id, launch_index, 'my__instances.sum' AS metric, i AS value, i::VARCHAR AS instance
FROM launches, range(2) AS r (i)
WHERE timing = 'profiled';

-- Notes of two authors at one moment.
INSERT INTO annotations BY NAME
SELECT
    's' || i || 'b' AS signature_id, key, 'value ' || author AS value, author, TIMESTAMP '2026-11-01' AS noted_at,
    CASE WHEN key <> 'role' THEN 1000 * length(author) END AS number
FROM range(2) AS r (i), (VALUES ('role'), ('flops'), ('bytes')) AS k (key), (VALUES ('me'), ('you')) AS a (author);

-- Two runs that began at one moment replayed the same calls, each by two routes.
INSERT INTO replay_runs BY NAME
SELECT
    'run ' || r AS run_id, TIMESTAMP '2026-11-01' AS started, 'NVIDIA H100 80GB HBM3' AS gpu, 5.0 + r AS gap_ns, 100.0 + r AS launch_loop_power_w,
    2.0 AS launch_loop_power_error_w, 60.0 AS context_power_w
FROM range(2) AS s (r);

INSERT INTO replays BY NAME
SELECT
    'run ' || r AS run_id, 'item ' || i || j AS item_id, 0 AS ordinal, 's' || i || 'b' AS signature_id, 'cold' AS cache, ['aten', 'memory'][1 + j] AS route,
    CASE WHEN i = 5 THEN 'L4' ELSE 'L0' END AS grade, CASE WHEN i = 5 THEN 'reason ' || j END AS reason, 410.0 + r + 10 * j AS mean_ns,
    410.0 + r + 10 * j AS replay_ns, 400.0 AS low_ns, 430.0 AS high_ns, 4 AS launches, 400 AS recorded_ns, 1600 AS recorded_total_ns,
    CASE WHEN i <> 4 THEN 0.05 + r END AS dynamic_mj, CASE WHEN i <> 4 THEN 0.04 + r END AS dynamic_low_mj,
    CASE WHEN i <> 4 THEN 0.06 + r END AS dynamic_high_mj, CASE WHEN i = 4 THEN 'no meter ' || j END AS energy_reason
FROM range(2) AS a (r), range(6) AS b (i), range(2) AS c (j);

INSERT INTO replay_calls BY NAME
SELECT run_id, item_id, 'ok' AS status, route, cache, 1500 AS clock_mhz, 0.2 AS energy_mj FROM replays;

INSERT INTO measurements BY NAME
SELECT trace_id, run, 'tiny' AS model, 'decode' AS workload, CASE name WHEN 'graph' THEN 'cuda_graph' ELSE 'eager' END AS mode, quantity, value,
    TIMESTAMP '2026-11-01' AS measured_at, 'GPU-1' AS uuid
FROM traces, (VALUES ('wall_ns', 30000.0), ('wall_ns', 31000.0), ('energy_mj', 9.0), ('busy_ns', 20000.0)) AS q (quantity, value)
WHERE name IN ('before', 'graph', 'rank0', 'rank1');

-- Readings of a log that knows whole seconds only.
INSERT INTO power_samples BY NAME
SELECT
    'id rank0' AS trace_id, 'log' AS source, 0 AS device, 'GPU-1' AS gpu, 1000 * (i // 3) AS epoch_ns, 100.0 + i % 3 * (i % 5) AS power_w
FROM range(60) AS r (i)
UNION ALL BY NAME
SELECT 'id rank1' AS trace_id, 'log' AS source, 0 AS device, 'GPU-2' AS gpu, 1000 * (i // 3) AS epoch_ns, 1.0 * (i // 2) AS energy_mj
FROM range(60) AS r (i);

INSERT INTO kernel_symbols BY NAME
SELECT
    trace_id, i AS symbol_id, i % 2 AS code_object_id, '1' AS process, 'n' || (i % 2) AS name_id, 'symbol ' || (i % 2) AS symbol, 4 AS launches
FROM traces, range(8) AS r (i)
WHERE name IN ('before', 'after');

INSERT INTO kernel_sources BY NAME
SELECT
    'hash ' || (i % 2) AS kernel_hash, 'id before' AS trace_id, 'name ' || i AS name, 'triton' AS language, 'origin ' || i AS origin,
    'text ' || (i % 2) AS source, i || '.py' AS file
FROM range(4) AS r (i);

INSERT INTO inferred_calls BY NAME
SELECT
    trace_id, launch_index, signature_id, inferred_id, inferred_by, 'c' || (launch_index % 4) AS call_id, 1 AS call_kernels, 'run 0' AS run_id
FROM launches
WHERE inferred_id IS NOT NULL;

UPDATE traces SET launches_start_ns = 0, launches_end_ns = 24000, bin_ns = 1024 WHERE kind = 'timeline';

INSERT INTO timeline_bins BY NAME
SELECT
    l.trace_id, l.process, l.device, l.stream, n.category, l.start_ns // 1024 AS first_bin, (l.end_ns - 1) // 1024 AS last_bin, count(*) AS n,
    sum(l.start_ns)::BIGINT AS begins_ns, sum(l.end_ns)::BIGINT AS ends_ns
FROM launches AS l
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
WHERE l.timing = 'timeline'
GROUP BY ALL;

INSERT INTO cpu_samples BY NAME
SELECT
    trace_id, i AS sample_index, '1' AS process, '1' AS thread, i * 10 AS ts_ns, 'f' || (i % 2) AS function, 'main;f' || (i % 2) AS stack
FROM traces, range(4) AS r (i);
