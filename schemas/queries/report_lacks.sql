SELECT what, remedy
FROM (
    SELECT
        count(*) FILTER (timing = 'timeline') AS timed,
        count(*) FILTER (op IS NOT NULL) AS with_op,
        count(*) FILTER (input_dims IS NOT NULL) AS with_shapes,
        count(*) FILTER (phase IS NOT NULL) AS with_phase,
        count(*) FILTER (flops IS NOT NULL) AS with_flops,
        count(*) FILTER (replay_ns IS NOT NULL) AS replayed,
        count(*) FILTER (energy_mj IS NOT NULL) AS with_energy,
        count(*) AS n
    FROM kernels
    WHERE trace = $trace
), LATERAL (
    VALUES
        (1, timed = 0, 'no timeline: counters or sums only', 'Record the program with the PyTorch profiler, nsys or rocprofv3 --kernel-trace, and ingest that into the same run.'),
        (2, with_op = 0, 'no operators', 'Record with torch.profiler, activities CPU and CUDA (ROCm too).'),
        (3, with_op > 0 AND with_shapes = 0, 'no input shapes', 'Record with record_shapes=True.'),
        (4, with_phase = 0, 'no phases', 'Wrap stages in torch.profiler.record_function, an NVTX or a roctx range, or ingest with --phase.'),
        (5, with_flops = 0, 'no FLOPs: neither shapes nor annotations', 'Record shapes, or name them: kerneldb annotate.'),
        (6, replayed = 0, 'not replayed', 'kerneldb replay --trace NAME'),
        (7, replayed > 0 AND with_energy = 0, 'no energy', 'kerneldb replay --energy on a GPU with an energy counter.')
) AS lacks (place, is_so, what, remedy)
WHERE is_so
ORDER BY place;
