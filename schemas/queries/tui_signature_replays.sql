-- Replays of the signature $signature_id, latest run first, with the device's state while they ran.
SELECT
    r.grade, r.route, r.cache, r.replay_ns, r.low_ns, r.high_ns, r.runs, r.replay_ns / nullif(r.recorded_ns, 0) AS ratio,
    r.energy_mj, c.power_w, c.clock_mhz, c.temperature_c, r.reason, u.gpu, u.started
FROM replays AS r
LEFT JOIN replay_runs AS u USING (run_id)
LEFT JOIN replay_calls AS c ON c.run_id = r.run_id AND c.item_id = r.item_id AND c.cache IS NOT DISTINCT FROM r.cache
WHERE r.signature_id = $signature_id
ORDER BY u.started DESC, r.launches DESC, r.item_id, r.ordinal, r.run_id, r.cache
LIMIT 20;
