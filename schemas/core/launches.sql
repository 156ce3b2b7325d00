-- One row per GPU activity: kernel, copy, fill or graph.
--
-- Sorted by trace and start at insertion, so that a condition on the time of a trace reads few rows.
CREATE TABLE launches (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT NOT NULL,  -- Number of the activity in its trace, as its reader came to it: mostly by start (not in CSV of rocprofv3, nor
    -- across processes).
    kind VARCHAR NOT NULL,  -- kernel, memcpy, memset, or graph (a CUDA graph that was recorded as a whole and hides its kernels).
    timing VARCHAR NOT NULL,  -- timeline (times of a running program) or profiled (under a kernel profiler; never part of time sums).
    signature_id VARCHAR NOT NULL,  -- What ran, in signatures.
    process VARCHAR,  -- Process that launched it, as recorded.
    device INTEGER,  -- Index of the device.
    context BIGINT,  -- Context (CUDA) or queue of the device.
    stream BIGINT,  -- Stream.
    start_ns BIGINT,  -- [ns] Start, relative to base_ns of the trace.
    end_ns BIGINT,  -- [ns] End.
    duration_ns BIGINT,  -- [ns] Duration.
    correlation_id BIGINT,  -- Number that the tool gave to call and activity.
    api_index BIGINT,  -- Launching call, in api_calls.
    api_call VARCHAR,  -- Name of the launching call, such as cudaLaunchKernel.
    launch_status VARCHAR NOT NULL,  -- linked, graph (launched by a graph), before_window (the call lies before the recording), no_op (call without
    -- operator).
    link_method VARCHAR,  -- How the operator was found: containment of the launching call, external_id; of XLA: hlo_op, its place, its name.
    launch_start_ns BIGINT,  -- [ns] Start of the launching call.
    launch_duration_ns BIGINT,  -- [ns] Duration of the launching call.
    op_id BIGINT,  -- Operator that launched it, in ops.
    call_ordinal INTEGER,  -- Number of the activity among those of the same operator call, from 0.
    range_id BIGINT,  -- Innermost annotation around the launch, in ranges.
    phase VARCHAR,  -- Outermost annotation below the step around the launch.
    range_path VARCHAR,  -- All annotations around the launch, from the outermost.
    module VARCHAR,  -- nn.Module that launched it, where recorded.
    python_line VARCHAR,  -- Innermost Python frame with a line around its launch call, where recorded.
    shared_bytes BIGINT,  -- [bytes] Shared memory (LDS) per block, in total.
    static_shared_bytes BIGINT,  -- [bytes] Static part of it.
    dynamic_shared_bytes BIGINT,  -- [bytes] Dynamic part of it.
    registers INTEGER,  -- Registers per thread (VGPRs on AMD).
    agprs INTEGER,  -- Accumulation registers per thread (AMD).
    sgprs INTEGER,  -- Scalar registers per wavefront (AMD).
    occupancy DOUBLE,  -- [fraction] Occupancy as the tool estimated it, 0 to 1.
    occupancy_limiter VARCHAR,  -- What limits it.
    blocks_per_multiprocessor DOUBLE,  -- [blocks] Blocks per SM as the tool printed it.
    queued_ns BIGINT,  -- [ns] Time at which it was queued on the device, where recorded.
    graph_id BIGINT,  -- CUDA or HIP graph.
    graph_node_id BIGINT,  -- Node of that graph.
    collective VARCHAR,  -- Collective operation, such as allreduce.
    collective_dtype VARCHAR,  -- Element type of the collective.
    collective_in_elements BIGINT,  -- [elements] Input elements of the collective.
    collective_out_elements BIGINT,  -- [elements] Output elements of the collective.
    group_size INTEGER,  -- Ranks of the process group.
    group_name VARCHAR,  -- Name of the process group.
    group_description VARCHAR,  -- Description of the process group.
    group_ranks VARCHAR,  -- Ranks of the process group, as recorded.
    collective_seq BIGINT,  -- Sequence number of the collective in its group.
    reported_grid_x BIGINT,  -- Grid as the source prints it, first axis.
    reported_grid_y BIGINT,  -- Grid as the source prints it, second axis.
    reported_grid_z BIGINT,  -- Grid as the source prints it, third axis.
    reported_grid_unit VARCHAR,  -- What the source counts in a grid: blocks or work-items.
    registers_reported INTEGER,  -- Vector registers per thread as the source reports them; registers holds those allocated.
    agprs_reported INTEGER,  -- Accumulation registers per thread as the source reports them.
    sgprs_reported INTEGER,  -- Scalar registers per wave as the source reports them.
    scratch_bytes BIGINT,  -- [bytes] Private (local, scratch) memory per thread.
    theoretical_occupancy DOUBLE,  -- Resident warps or waves over the most that fit, from the resources of the launch and the limits of the
    -- architecture (0 to 1); RDNA: in WGP mode.
    theoretical_occupancy_cu DOUBLE,  -- The same in CU mode; RDNA only.
    theoretical_limiter VARCHAR,  -- Which resource limits theoretical_occupancy.
    queue BIGINT,  -- Hardware queue (HSA).
    quality VARCHAR,  -- Known defects of the values in this row, comma-separated.
    shared_config_bytes BIGINT,  -- [bytes] Shared memory that an SM was set to while the kernel ran (nsys: sharedMemoryExecuted), not that of a
    -- block.
    iteration INTEGER,  -- Iteration of the program; NULL outside of iterations and where none were found; see `iterations`.
    steady_state BOOLEAN,  -- Whether the launch is in an iteration like the others; NULL where it cannot be decided (see `iterations`) and in traces of
    -- over 200000 launches.
    inferred_id VARCHAR,  -- Signature with the operator call that was inferred for a launch recorded without one; NULL where none was, or the call is
    -- recorded.
    inferred_by VARCHAR,  -- How it was found: inherited (taken from another launch) or inferred (by trying calls on a GPU).
    is_repeat BOOLEAN,  -- TRUE where a better trace of the run holds the same launch: it is not in `kernels`.
    warps_per_multiprocessor DOUBLE  -- [warps] Warps per SM as the tool printed it.
);
