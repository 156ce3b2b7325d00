-- The latest replay of a signature; of several in one run, that of the call which launched it most. A call that was inferred for launches recorded
-- without one has a signature of its own; one that was tried and not accepted is left out.
CREATE OR REPLACE VIEW _latest_replays AS
SELECT
    coalesce(replays.inferred_id, replays.signature_id) AS signature_id,
    replays.grade,
    replays.replay_ns,
    replays.energy_mj,
    replays.dynamic_mj,
    replays.energy_reason
FROM replays
LEFT JOIN replay_runs USING (run_id)
WHERE replays.inferred_id IS NOT NULL OR replays.dims_source IS NULL OR replays.dims_source = 'op'
QUALIFY row_number() OVER (
    PARTITION BY coalesce(replays.inferred_id, replays.signature_id)
    ORDER BY
        replay_runs.started DESC, replays.launches DESC, replays.grade, replays.item_id, replays.ordinal, replays.run_id, replays.cache
) = 1;
