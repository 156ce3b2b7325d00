-- What a trace lacks, and how to have it: the same as kerneldb db doctor says of its file, and what only the database knows.
SELECT what, remedy
FROM (
    SELECT
        count(*) FILTER (timing = 'timeline') AS timed,
        count(*) FILTER (op IS NOT NULL) AS with_op,
        count(*) FILTER (input_dims IS NOT NULL) AS with_shapes,
        count(*) FILTER (phase IS NOT NULL) AS with_phase,
        count(*) FILTER (flops IS NOT NULL) AS with_flops,
        count(*) FILTER (pct_peak_flops IS NOT NULL OR pct_peak_bandwidth IS NOT NULL) AS with_peaks,
        count(*) FILTER (replay_ns IS NOT NULL) AS replayed,
        count(*) FILTER (energy_mj IS NOT NULL) AS with_energy,
        100 * count(*) FILTER (launch_status = 'before_window') / greatest(count(*), 1) AS before_pct,
        100 * count(*) FILTER (launch_status = 'graph' AND op IS NULL) / greatest(count(*), 1) AS graph_pct,
        (SELECT bool_and(source = 'pytorch' AND has_stacks IS NOT TRUE) FROM traces WHERE name = $trace) AS lacks_stacks,
        count(*) AS n
    FROM all_launches
    WHERE trace = $trace
), LATERAL (
    VALUES
        (1, timed = 0, 'no timeline: counters or sums only', 'Record the program with the PyTorch profiler, nsys or rocprofv3 --kernel-trace, and ingest that into the same run.'),
        (2, with_op = 0, 'no operators', 'Only torch.profiler records them: for a PyTorch program, record with activities CPU and CUDA (on ROCm, too).'),
        (3, with_op > 0 AND with_shapes = 0, 'no input shapes', 'Record with record_shapes=True.'),
        (3, with_op > 0 AND lacks_stacks, 'no Python stacks or modules', 'Record with with_stack=True (slower recording).'),
        (3, before_pct > 2, 'calls and operators of ' || round(before_pct)::BIGINT || ' % of the launches, made before the recorded window began', 'Synchronise before the profiler starts, or use schedule(wait=1, warmup=1, active=…).'),
        (3, graph_pct > 2, 'operators of ' || round(graph_pct)::BIGINT || ' % of the launches, which come from CUDA or HIP graphs', 'Record the captures too (kerneldb record --cuda-graphs), or one run without graphs.'),
        (4, with_phase = 0, 'no phases', 'Wrap stages in torch.profiler.record_function, an NVTX or a roctx range, or ingest with --phase.'),
        (5, with_flops = 0, 'no FLOPs: no operators whose work follows from their shapes, no annotations', 'Record shapes (torch.profiler), collect counters, or name the work: kerneldb db annotate.'),
        (6, with_flops > 0 AND with_peaks = 0, 'no peaks of the GPU', 'No data sheet of it is known (gpu_specs), or the file describes no GPU of the number on which the launches ran.'),
        (7, replayed = 0, 'not replayed', 'kerneldb replay --trace NAME'),
        (8, replayed > 0 AND with_energy = 0, 'no energy', 'kerneldb replay --energy on a GPU with an energy counter.')
) AS lacks (place, is_so, what, remedy)
WHERE is_so
ORDER BY place, what;
