-- Calls of launches that were recorded without one: taken from other launches (inherited) or found by trying (inferred). The signature
-- with that call is `found_id`, and `found_by` says how it was found; the recorded identity of a launch stays as it is.
ALTER TABLE launches ADD COLUMN found_id VARCHAR;
ALTER TABLE launches ADD COLUMN found_by VARCHAR;

ALTER TABLE rollups ADD COLUMN found_id VARCHAR;
ALTER TABLE rollups ADD COLUMN found_by VARCHAR;

-- One row per launch with a found call.
CREATE TABLE found_calls (
    trace_id VARCHAR NOT NULL,
    launch_index BIGINT NOT NULL,
    signature_id VARCHAR NOT NULL,
    found_id VARCHAR NOT NULL,
    found_by VARCHAR NOT NULL,
    call_id VARCHAR,
    call_ordinal INTEGER,
    call_kernels INTEGER,
    call_launch BIGINT,
    donor_trace_id VARCHAR,
    donor_launch_index BIGINT,
    run_id VARCHAR,
    item_id VARCHAR,
    method VARCHAR,
    confidence DOUBLE,
    alternatives INTEGER,
    evidence VARCHAR,
    found_at TIMESTAMP
);

-- The calls that a replay tried for a launch without one, in order.
CREATE TABLE replay_tries (
    run_id VARCHAR NOT NULL,
    item_id VARCHAR NOT NULL,
    try_index INTEGER NOT NULL,
    candidate INTEGER,
    op VARCHAR,
    input_dims VARCHAR,
    input_strides VARCHAR,
    input_dtypes VARCHAR,
    scalars VARCHAR,
    overload VARCHAR,
    why VARCHAR,
    grade VARCHAR,
    same_name BOOLEAN,
    same_grid BOOLEAN,
    same_block BOOLEAN,
    same_shared BOOLEAN,
    time_ns DOUBLE,
    recorded_ns DOUBLE,
    score DOUBLE,
    reason VARCHAR,
    accepted BOOLEAN
);

ALTER TABLE replays ADD COLUMN dims_source VARCHAR;
ALTER TABLE replays ADD COLUMN found_id VARCHAR;
ALTER TABLE replay_calls ADD COLUMN dims_source VARCHAR;
ALTER TABLE replay_calls ADD COLUMN confidence DOUBLE;
ALTER TABLE replay_calls ADD COLUMN found_call_id VARCHAR;

-- Source code of kernels, archived by the hash under which traces name it.
CREATE TABLE kernel_sources (
    kernel_hash VARCHAR NOT NULL,
    trace_id VARCHAR,
    name VARCHAR,
    language VARCHAR,
    origin VARCHAR,
    source VARCHAR,
    file VARCHAR,
    sha256 VARCHAR,
    archived_at TIMESTAMP
);

-- What a call costs in a loop that the power cap holds at a lower clock: a model that is itself capped runs at one in between.
ALTER TABLE replay_calls ADD COLUMN capped_mhz DOUBLE;
ALTER TABLE replay_calls ADD COLUMN capped_stretch DOUBLE;
ALTER TABLE replay_calls ADD COLUMN capped_above_gap_mj DOUBLE;
