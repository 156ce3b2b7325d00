-- The $top kernels of each measured stage that take most time, of `closure_selected`.
SELECT
    trace,
    stage,
    mode,
    kernel,
    signature_id,
    category,
    route,
    grade,
    n,
    recorded_ns,
    share_pct,
    replayed_ns,
    ratio,
    above_gap_mj,
    above_gap_half_mj AS above_gap_error_mj,
    coalesce(reason, energy_reason) AS reason
FROM closure_selected
QUALIFY row_number() OVER (PARTITION BY trace, stage, mode ORDER BY recorded_ns DESC, signature_id, route) <= $top
ORDER BY trace, stage, mode, recorded_ns DESC, signature_id, route;
