-- Sums over launches per signature, device, stream and phase, and sums that profilers printed.
--
-- What `all_launches` is for single launches. `timing` is 'summed' for sums of a profiler whose launches are not known. `is_primary` marks the rows
-- of `kernel_rollups`.
--
-- Columns:
--   trace: as in kernels
--   run, source, rank, kind, name, short_name, category, family, library, operation, dtype, op: as in kernels
--   device, stream: as in rollups
--   phase VARCHAR: Phase of the launches, else the default phase of the trace.
--   timing VARCHAR: timeline, profiled (under a counter profiler) or summed (sums that a tool printed). Times of one kind are never added to those of
--     another.
--   origin VARCHAR: launches (summed from them), or a sum that the tool itself printed: report_grid, report, report_phase.
--   is_primary BOOLEAN: Whether the row is in `kernel_rollups`: no better trace or report of the run holds the same work.
--   n, timed, total_ns, min_ns, max_ns, sum_squares_ns2: as in rollups
--   median_ns, histogram: as in rollups
--   signature_id, name_id, trace_id: as in kernels
--   inferred_by: as in rollups
-- Example:
--   SELECT trace, origin, is_primary, sum(n) AS launches FROM all_rollups GROUP BY ALL;
CREATE OR REPLACE VIEW all_rollups AS
SELECT
    t.trace,
    t.run,
    t.source,
    t.rank,
    s.kind,
    s.name,
    s.short_name,
    s.category,
    s.family,
    s.library,
    s.operation,
    s.dtype,
    coalesce(f.op, s.op) AS op,
    r.device,
    r.stream,
    coalesce(r.phase, t.default_phase) AS phase,
    CASE WHEN r.origin <> 'launches' AND r.timing = 'timeline' THEN 'summed' ELSE r.timing END AS timing,
    r.origin,
    r.is_repeat IS NOT TRUE
    AND (r.timing = coalesce(t.primary_timing, r.timing) OR (r.origin <> 'launches' AND r.timing = 'timeline')) AS is_primary,
    r.n,
    coalesce(r.timed, r.n) AS timed,
    r.total_ns,
    r.min_ns,
    r.max_ns,
    r.sum_squares_ns2,
    r.median_ns,
    r.histogram,
    r.signature_id,
    s.name_id,
    r.trace_id,
    r.inferred_by
FROM rollups AS r
LEFT JOIN (
    SELECT trace_id, name AS trace, run, source, rank, default_phase, primary_timing FROM traces
) AS t USING (trace_id)
LEFT JOIN (
    SELECT
        signatures.signature_id,
        signatures.kind,
        signatures.op,
        signatures.name_id,
        kernel_names.name,
        kernel_names.short_name,
        signatures.category,
        kernel_names.family,
        kernel_names.library,
        kernel_names.operation,
        signatures.dtype
    FROM signatures
    LEFT JOIN kernel_names USING (name_id)
) AS s USING (signature_id)
LEFT JOIN (SELECT signature_id, op FROM signatures) AS f ON r.inferred_id = f.signature_id;
