-- The rollups with their dimensions: what `kernels` is for single launches. `counted` marks the rows that time sums may use: no
-- profiled times, and the work of a run once (decided when traces come and go: store/commit.sql).
CREATE OR REPLACE VIEW kernel_rollups AS
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
    r.timing,
    r.origin,
    r.timing = 'timeline' AND coalesce(r.counted, t.counted, true) AS counted,
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
    SELECT trace_id, name AS trace, run, source, rank, default_phase, counted FROM traces
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
