-- What a long trace did in each of some thousand bins of its time: what a timeline of everything reads instead of the launches. A row sums
-- the launches of a lane and a category that begin in `first_bin` and end in `last_bin`, so that bins of any multiple of `traces.bin_ns`
-- follow from it exactly. Bins, begins and ends count from `traces.launches_start_ns`.
CREATE TABLE timeline_bins (
    trace_id VARCHAR NOT NULL,
    process VARCHAR,
    device INTEGER,
    stream BIGINT,
    queue BIGINT,
    category VARCHAR,
    first_bin BIGINT NOT NULL,
    last_bin BIGINT NOT NULL,
    n BIGINT NOT NULL,
    begins_ns BIGINT NOT NULL,
    ends_ns BIGINT NOT NULL
);

ALTER TABLE traces ADD COLUMN launches_start_ns BIGINT;
ALTER TABLE traces ADD COLUMN launches_end_ns BIGINT;
ALTER TABLE traces ADD COLUMN bin_ns BIGINT;
