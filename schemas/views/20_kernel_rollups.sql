-- The rollups with their dimensions: what `all_launches` is for single launches, and the sums that tools printed (`timing` is 'summed'
-- there). `is_primary` is decided when traces come and go: store/runs.sql.
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
    r.found_by
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
        kernel_names.category,
        kernel_names.family,
        kernel_names.library,
        kernel_names.operation,
        kernel_names.dtype
    FROM signatures
    LEFT JOIN kernel_names USING (name_id)
) AS s USING (signature_id)
LEFT JOIN (SELECT signature_id, op FROM signatures) AS f ON r.found_id = f.signature_id;

-- What ran, once, summed: the rollups that `kernels` would give, and printed sums of work of which no launch is known.
CREATE OR REPLACE VIEW kernel_rollups AS
SELECT * EXCLUDE (is_primary) FROM all_rollups WHERE is_primary;
