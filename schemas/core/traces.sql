-- One row per trace: one capture by one profiler.
CREATE TABLE traces (
    trace_id VARCHAR NOT NULL,  -- Content id: hash of the decompressed files of the trace, so a trace is stored once.
    name VARCHAR NOT NULL,  -- Unique name of the trace, from the file or given; can be changed.
    run VARCHAR,  -- The run of the program: stated_run, else the traces that evidence joins (trace_links), else the trace alone, by its name. Never
    -- NULL.
    label VARCHAR,  -- Free text that was given at ingest (--label).
    kind VARCHAR NOT NULL,  -- timeline (launches with times), profiled (times under a kernel profiler), summary (sums only), replay
    -- (counters of calls that were replayed under a kernel profiler: launches of no program, which are not in `kernels`).
    source VARCHAR NOT NULL,  -- Family of the profiler: pytorch, nsys, ncu, rocprof, xla, proton, perfetto.
    tool VARCHAR,  -- Program that wrote the file.
    tool_version VARCHAR,  -- Its version.
    framework_version VARCHAR,  -- Version of the traced framework, such as that of torch.
    era VARCHAR,  -- Which generation of the file format the reader recognised.
    clock VARCHAR,  -- What base_ns counts from: epoch (1970), boottime (the start of the machine) or capture (the start of the recording).
    base_ns BIGINT,  -- [ns] Time of the zero of all *_ns times of the trace, on `clock`.
    window_start_ns BIGINT,  -- [ns] Earliest time of a launch, an operator or a call, relative to base_ns; annotations may begin before.
    window_end_ns BIGINT,  -- [ns] Latest time of these, relative to base_ns; annotations may end behind it.
    rank INTEGER,  -- Rank of the process in a distributed run; NULL where none was recorded.
    world_size INTEGER,  -- Number of ranks of the distributed run.
    host VARCHAR,  -- Host name, where recorded.
    default_phase VARCHAR,  -- Phase of launches that have none of their own (--phase).
    has_shapes BOOLEAN,  -- Whether operator calls carry input shapes.
    has_stacks BOOLEAN,  -- Whether Python frames were recorded.
    launches BIGINT,  -- Number of rows in `launches`.
    metadata VARCHAR,  -- All other metadata of the file, as JSON.
    reader_version INTEGER,  -- Version of the reader that converted the file.
    ingested_at TIMESTAMP,  -- [UTC] When the trace was committed.
    job VARCHAR,  -- Name that the traces of ranks that ran together have in common; NULL for a trace of no such job.
    launches_start_ns BIGINT,  -- [ns] Start of the first launch of the timeline, relative to base_ns; NULL without times, and in traces of an older
    -- kerneldb until `refresh`.
    launches_end_ns BIGINT,  -- [ns] End of the last launch of the timeline, relative to base_ns; NULL like launches_start_ns.
    bin_ns BIGINT,  -- [ns] Width of the bins of a long trace in timeline_bins; NULL where it has none.
    stated_run VARCHAR,  -- Run that `kerneldb ingest --run` or a recording names; NULL where neither does.
    stated_job VARCHAR,  -- Job that a recording names.
    is_primary BOOLEAN,  -- FALSE where other traces of the run hold all that this one does: nothing of it is in `kernels`.
    primary_timing VARCHAR,  -- Timing of the launches that are primary: timeline where the run has one (for the same rank and phase), else profiled.
    repeats VARCHAR[]  -- Ids of the better traces that hold launches of this one, best first; NULL where there are none.
);
