-- Of `selection`: how many signatures, their time, the part of it that was replayed, and the energy where it is known.
SELECT
    count(*) AS signatures,
    sum(n)::BIGINT AS launches,
    try_cast(sum(total_ns) AS BIGINT) AS total_ns,
    try_cast(sum(total_ns) FILTER (replayed) AS BIGINT) AS replayed_ns,
    sum(energy_mj) AS energy_mj,
    try_cast(sum(total_ns) FILTER (energy_mj IS NOT NULL) AS BIGINT) AS measured_ns
FROM (
    SELECT
        signature_id,
        count(*) AS n,
        sum(duration_ns) AS total_ns,
        max(replay_ns) IS NOT NULL AS replayed,
        sum(energy_mj) AS energy_mj
    FROM selection
    WHERE timing = 'timeline'
    GROUP BY signature_id
);
