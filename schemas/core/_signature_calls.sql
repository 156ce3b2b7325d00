-- Signatures with the work of their call and their latest replay. What users noted of the work goes before what is derived.
CREATE OR REPLACE VIEW _signature_calls AS
SELECT
    s.* EXCLUDE (flops, moved_bytes, work_method, deriver_version),
    coalesce(noted.flops, s.flops) AS flops,
    coalesce(noted.moved_bytes, s.moved_bytes) AS moved_bytes,
    coalesce(noted.work_method, s.work_method) AS work_method,
    noted.flops AS noted_flops,
    noted.moved_bytes AS noted_bytes,
    noted.work_method AS noted_method,
    noted.role,
    latest.grade AS replay_grade,
    latest.replay_ns, latest.energy_mj, latest.dynamic_mj, latest.energy_reason
FROM signatures AS s
LEFT JOIN _signature_notes AS noted USING (signature_id)
LEFT JOIN _latest_replays AS latest USING (signature_id);
