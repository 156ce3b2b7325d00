-- Sums over launches per trace, device, stream, signature, phase and timing, which overviews read instead of the launches.
--
-- A bin of `histogram` is floor(16 log2 ns), so bins of several rows add up, and a quantile read from them is off by 2.2 % at most.
CREATE TABLE rollups (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    origin VARCHAR NOT NULL,  -- launches (summed from them), or a sum that the tool itself printed: report_grid (per name and launch configuration),
    -- report (per name), report_phase (per phase; ranges nest, so it never counts).
    device INTEGER,  -- Index of the device; NULL where a report does not name it.
    stream BIGINT,  -- Stream; NULL where a report does not name it.
    signature_id VARCHAR NOT NULL,  -- What ran, in signatures.
    phase VARCHAR,  -- Phase of the launches themselves (without the default phase of the trace).
    timing VARCHAR NOT NULL,  -- timeline or profiled.
    n BIGINT NOT NULL,  -- Number of launches.
    total_ns BIGINT,  -- [ns] Sum of durations.
    min_ns BIGINT,  -- [ns] Shortest duration.
    max_ns BIGINT,  -- [ns] Longest duration.
    sum_squares_ns2 DOUBLE,  -- [ns²] Sum of squared durations.
    median_ns DOUBLE,  -- [ns] Median duration.
    histogram MAP(SMALLINT, BIGINT),  -- Number of launches by duration: bin k holds those from 2^(k/16) ns up to 2^((k+1)/16) ns.
    timed BIGINT,  -- Launches that have a duration.
    inferred_id VARCHAR,  -- Signature with the operator call that was inferred for these launches (launches.inferred_id).
    inferred_by VARCHAR,  -- How the operator call of launches recorded without one was found: inherited or inferred; NULL where it was recorded, or
    -- not found.
    is_repeat BOOLEAN  -- TRUE where a better trace of the run holds the same launches.
);
