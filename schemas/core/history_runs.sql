-- Recorded runs of a program's history: one row per trace that has a commit (`kerneldb ingest --commit`), in the series of which it is compared.
--
-- A series is one workload on one branch, kind of GPU and rank. Runs of other GPUs are never compared with each other.
CREATE TABLE history_runs (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    series_id VARCHAR NOT NULL,  -- Id of the series: a hash of workload, branch, device_name and rank.
    workload VARCHAR NOT NULL,  -- What was run: the tag `workload`, else the label, else the name of the trace without numbers.
    branch VARCHAR,  -- Branch of that commit.
    device_name VARCHAR,  -- Product names of the GPUs.
    rank INTEGER,  -- Rank of the process.
    commit VARCHAR NOT NULL,  -- The commit.
    happened_at TIMESTAMP NOT NULL,  -- [UTC] Place in the history: time of the commit, else of the recording, else of the ingest.
    recorded_at TIMESTAMP,  -- [UTC] When the trace was recorded, which orders runs of one commit; NULL where its clock does not say.
    environment VARCHAR NOT NULL,  -- Versions of driver and software, host and board, as a JSON object of texts.
    units BIGINT NOT NULL,  -- Number of steady-state iterations that sums are divided by; 1 where none were found.
    scanned INTEGER  -- Version of the search for changes that has seen the run; NULL where none has.
);
