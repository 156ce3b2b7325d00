-- Counters of calls that were replayed.
ALTER TABLE replay_calls ADD COLUMN counters_reason VARCHAR;
