-- What replays measured, the latest run first: grade, time and energy of a launch with 95 % intervals.
SELECT
    n.short_name AS kernel,
    s.op,
    r.grade,
    r.reason,
    r.launches,
    r.recorded_ns,
    r.replay_ns,
    r.low_ns,
    r.high_ns,
    r.energy_mj,
    r.energy_low_mj,
    r.energy_high_mj,
    r.energy_reason,
    r.cache,
    r.run_id
FROM replays AS r
INNER JOIN replay_runs USING (run_id)
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
ORDER BY replay_runs.started DESC, r.recorded_total_ns DESC, r.run_id, r.item_id, r.ordinal, r.cache;
