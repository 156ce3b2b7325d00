-- From the tables of kerneldb 0.1.0 (version 6) to those of this version. Whoever changes a table changes its own file, and adds one here,
-- named by the next version (0008_….sql), that brings older files to the same shape: columns that are added stand last.
--
-- What ran, once: which traces belong together and why, and which launches another trace holds, too. `counted` goes: traces.is_primary,
-- launches.is_repeat and rollups.is_repeat take its place.
ALTER TABLE schema_docs ADD COLUMN subject VARCHAR;
ALTER TABLE schema_docs ADD COLUMN example VARCHAR;
ALTER TABLE schema_docs ADD COLUMN notes VARCHAR;
ALTER TABLE traces ADD COLUMN stated_run VARCHAR;
ALTER TABLE traces ADD COLUMN stated_job VARCHAR;
ALTER TABLE traces ADD COLUMN is_primary BOOLEAN;
ALTER TABLE traces ADD COLUMN primary_timing VARCHAR;
ALTER TABLE traces ADD COLUMN repeats VARCHAR[];
ALTER TABLE traces DROP COLUMN counted;
ALTER TABLE launches ADD COLUMN is_repeat BOOLEAN;
ALTER TABLE rollups ADD COLUMN is_repeat BOOLEAN;
ALTER TABLE rollups DROP COLUMN counted;

-- What a trace is known by: a few of its launches, its sums, and the collectives of its process groups.
CREATE TABLE trace_evidence (
    trace_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    key VARCHAR,
    detail VARCHAR,
    n BIGINT,
    first_ns BIGINT,
    last_ns BIGINT,
    min_ns BIGINT,
    max_ns BIGINT,
    tolerance_ns BIGINT
);

-- Why two traces belong together (print, job), may (hint), or cannot (apart).
CREATE TABLE trace_links (
    trace_id VARCHAR NOT NULL,
    other_id VARCHAR NOT NULL,
    relation VARCHAR NOT NULL,
    method VARCHAR NOT NULL,
    score DOUBLE,
    evidence VARCHAR,
    apart_ns BIGINT
);

-- Profiled launches that another trace holds, too, and which launch that is there: their metrics are those of one launch.
CREATE TABLE launch_prints (
    trace_id VARCHAR NOT NULL,
    launch_index BIGINT NOT NULL,
    primary_trace_id VARCHAR NOT NULL,
    primary_launch_index BIGINT NOT NULL
);

-- The GPU of a device is identified when its trace is read.
DROP TABLE gpu_names;
ALTER TABLE devices ADD COLUMN gpu VARCHAR;
CREATE TABLE peak_types (
    dtype VARCHAR NOT NULL,
    fact VARCHAR NOT NULL
);
