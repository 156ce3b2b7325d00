-- Steps of jobs of several ranks.
ALTER TABLE step_replays ADD COLUMN rank INTEGER;
ALTER TABLE step_replays ADD COLUMN ranks INTEGER;
ALTER TABLE step_replays ADD COLUMN streams INTEGER;
ALTER TABLE step_kernels ADD COLUMN waited_ns BIGINT;
ALTER TABLE step_kernels ADD COLUMN wait_ns DOUBLE;
