-- What a long trace (over 200,000 launches) did in each of some thousand bins of its time, per stream and category; a timeline of everything reads
-- these instead of the launches.
--
-- A row sums the launches that begin in `first_bin` and end in `last_bin`, so that bins of any multiple of `traces.bin_ns` follow from it exactly.
CREATE TABLE timeline_bins (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    process VARCHAR,  -- Process of the launches, like launches.process.
    device INTEGER,  -- Index of the device.
    stream BIGINT,  -- Stream; NULL where a trace names only queues.
    queue BIGINT,  -- Queue, where the trace names queues (rocprofv3).
    category VARCHAR,  -- Category of the kernels, like signatures.category.
    first_bin BIGINT NOT NULL,  -- Bin in which the launches begin: bins of traces.bin_ns, counted from traces.launches_start_ns.
    last_bin BIGINT NOT NULL,  -- Bin of the last ns of the launches; one less than first_bin for a launch that takes no time at the start of a bin.
    n BIGINT NOT NULL,  -- Number of launches.
    begins_ns BIGINT NOT NULL,  -- [ns] Sum of the starts, counted from traces.launches_start_ns.
    ends_ns BIGINT NOT NULL  -- [ns] Sum of the ends, counted from traces.launches_start_ns.
);
