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
        count(*) AS n
    FROM all_launches
    WHERE trace = $trace
), LATERAL (
    VALUES
        (1, timed = 0, 'no timeline: counters or sums only', 'Record the program with the PyTorch profiler, nsys or rocprofv3 --kernel-trace, and ingest that into the same run.'),
        (2, with_op = 0, 'no operators', 'Only torch.profiler records them: for a PyTorch program, record with activities CPU and CUDA (on ROCm, too).'),
        (3, with_op > 0 AND with_shapes = 0, 'no input shapes', 'Record with record_shapes=True.'),
        (4, with_phase = 0, 'no phases', 'Wrap stages in torch.profiler.record_function, an NVTX or a roctx range, or ingest with --phase.'),
        (5, with_flops = 0, 'no FLOPs: no operators whose work follows from their shapes, no annotations', 'Record shapes (torch.profiler), collect counters, or name the work: kerneldb db annotate.'),
        (6, with_flops > 0 AND with_peaks = 0, 'no peaks of the GPU', 'No data sheet of it is known (gpu_specs), or the file describes no GPU of the number on which the launches ran.'),
        (7, replayed = 0, 'not replayed', 'kerneldb replay --trace NAME'),
        (8, replayed > 0 AND with_energy = 0, 'no energy', 'kerneldb replay --energy on a GPU with an energy counter.')
) AS lacks (place, is_so, what, remedy)
WHERE is_so
ORDER BY place;
