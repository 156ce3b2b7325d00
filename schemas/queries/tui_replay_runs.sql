-- The replay runs, latest first, with how many signatures each came to.
SELECT
    r.run_id,
    r.started,
    r.finished,
    r.device,
    r.gpu,
    r.cache,
    r.energy_reason,
    coalesce(n.signatures, 0) AS signatures
FROM replay_runs AS r
LEFT JOIN (SELECT run_id, count(DISTINCT signature_id) AS signatures FROM replays GROUP BY run_id) AS n USING (run_id)
ORDER BY r.started DESC, r.run_id;
