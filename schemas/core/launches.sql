-- One row per GPU activity: kernel, copy, fill or graph.
--
-- Sorted by trace and start at insertion, so that a condition on the time of a trace reads few rows.
CREATE TABLE launches (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT NOT NULL,  -- Number of the activity in its trace, mostly in order of start; in CSV of rocprofv3, and where a trace has
    -- several processes, in order of the file.
    kind VARCHAR NOT NULL,  -- kernel, memcpy, memset, or graph (a CUDA graph that was recorded as a whole and hides its kernels).
    timing VARCHAR NOT NULL,  -- timeline (times of a running program) or profiled (under a kernel profiler; never part of time sums).
    signature_id VARCHAR NOT NULL,  -- The signature that it is a launch of (name, grid, block and call), in signatures.
    process VARCHAR,  -- Process that launched it, as recorded.
    device INTEGER,  -- Number of the GPU, as the tool counts; NULL where it names none.
    context BIGINT,  -- Context (CUDA) or queue of the device.
    stream BIGINT,  -- CUDA or HIP stream, by the number that the tool gives it.
    start_ns BIGINT,  -- [ns] When it began on the GPU, relative to base_ns of the trace; NULL where the tool gives no start times, as Nsight Compute.
    end_ns BIGINT,  -- [ns] When it ended, relative to base_ns of the trace.
    duration_ns BIGINT,  -- [ns] How long it ran on the GPU; NULL where the tool gives no duration, or an impossible one (negative, or over 7 days).
    correlation_id BIGINT,  -- Number by which the tool links a call on the host with the GPU activity that it launched.
    api_index BIGINT,  -- Call on the host that launched it, in api_calls; NULL where that was not recorded.
    api_call VARCHAR,  -- Name of the call on the host that launched it, such as cudaLaunchKernel.
    launch_status VARCHAR NOT NULL,  -- What is known of its launch: linked (its operator), no_op (a call outside of all operators), graph (the launch
    -- of a CUDA or HIP graph), before_window (it was launched before the recording began), no_launch (no call was recorded).
    link_method VARCHAR,  -- How its operator was found: containment (the launching call is inside it), external_id (the id that PyTorch gave both);
    -- of XLA, hlo_op, kernel name, or order in the command buffer. NULL without an operator.
    launch_start_ns BIGINT,  -- [ns] When the host began the call that launched it, relative to base_ns of the trace.
    launch_duration_ns BIGINT,  -- [ns] How long that call took on the host.
    op_id BIGINT,  -- Operator call that launched it, in ops; NULL where none was recorded.
    call_ordinal INTEGER,  -- Which of the GPU activities of its operator call it is, from 0.
    range_id BIGINT,  -- Innermost annotation around the launch, in ranges.
    phase VARCHAR,  -- Outermost annotation (NVTX, roctx, record_function) around the launch, below the step of the profiler: prefill or decode, for
    -- example. NULL outside of all.
    range_path VARCHAR,  -- Names of all annotations around the launch, from the outermost, with / between.
    module VARCHAR,  -- nn.Module that launched it, where recorded. Backward launches have none: `module_tree` counts them with that of their forward call.
    python_line VARCHAR,  -- Python file and line that launched it: the innermost frame with a line around the launching call. NULL where no frames
    -- were recorded.
    shared_bytes BIGINT,  -- [bytes] Shared memory (LDS) per block, in total.
    static_shared_bytes BIGINT,  -- [bytes] Shared memory per block that the compiled kernel declares.
    dynamic_shared_bytes BIGINT,  -- [bytes] Shared memory per block that the launch asks for beyond that.
    registers INTEGER,  -- Registers per thread (VGPRs on AMD).
    agprs INTEGER,  -- Accumulation registers per thread (AMD).
    sgprs INTEGER,  -- Scalar registers per wavefront (AMD).
    occupancy DOUBLE,  -- [fraction] Share of the warp slots of an SM that the launch can fill, as the tool estimated it, 0 to 1.
    occupancy_limiter VARCHAR,  -- What limits occupancy, as the tool calls it: registers, shared memory, ….
    blocks_per_multiprocessor DOUBLE,  -- [blocks] Blocks per SM as the tool printed it.
    queued_ns BIGINT,  -- [ns] When it was put into a queue of the device, relative to base_ns of the trace, where recorded.
    graph_id BIGINT,  -- CUDA or HIP graph that launched it, by the number that the tool gives it; NULL outside of graphs.
    graph_node_id BIGINT,  -- Its node in that graph.
    collective VARCHAR,  -- Collective operation, such as allreduce; NULL for what is none.
    collective_dtype VARCHAR,  -- Element type of the collective.
    collective_in_elements BIGINT,  -- [elements] Elements that this rank gives to the collective.
    collective_out_elements BIGINT,  -- [elements] Elements that this rank gets from it.
    group_size INTEGER,  -- Number of ranks in the process group of the collective.
    group_name VARCHAR,  -- Name of the process group.
    group_description VARCHAR,  -- What the framework says that the process group is for, such as default_pg.
    group_ranks VARCHAR,  -- Ranks of the process group, as recorded.
    collective_seq BIGINT,  -- Sequence number of the collective in its group.
    reported_grid_x BIGINT,  -- Grid as the source prints it, in reported_grid_unit, first axis; grid_x is always in blocks.
    reported_grid_y BIGINT,  -- Grid as the source prints it, second axis.
    reported_grid_z BIGINT,  -- Grid as the source prints it, third axis.
    reported_grid_unit VARCHAR,  -- What the source counts in a grid: blocks or work-items.
    registers_reported INTEGER,  -- Vector registers per thread as the source reports them; registers holds those allocated.
    agprs_reported INTEGER,  -- Accumulation registers per thread as the source reports them.
    sgprs_reported INTEGER,  -- Scalar registers per wave as the source reports them.
    scratch_bytes BIGINT,  -- [bytes] Private (local, scratch) memory per thread.
    theoretical_occupancy DOUBLE,  -- Resident warps or waves over the most that fit, from the resources of the launch and the limits of the
    -- architecture (0 to 1); RDNA: in WGP mode.
    theoretical_occupancy_cu DOUBLE,  -- theoretical_occupancy in CU mode; RDNA only.
    theoretical_limiter VARCHAR,  -- Which resource limits theoretical_occupancy.
    queue BIGINT,  -- Hardware queue (HSA).
    quality VARCHAR,  -- Known defects of the values in this row, comma-separated, such as grid_unit_unknown; NULL where there are none.
    shared_config_bytes BIGINT,  -- [bytes] Shared memory that an SM was set to while the kernel ran (nsys: sharedMemoryExecuted), not that of a
    -- block.
    iteration INTEGER,  -- Iteration of the program; NULL outside of iterations and where none were found; see `iterations`.
    steady_state BOOLEAN,  -- Whether the launch is in an iteration like the others; NULL where it cannot be decided (see `iterations`) and in traces of
    -- over 200000 launches.
    inferred_id VARCHAR,  -- Signature with the operator call that was inferred for a launch recorded without one; NULL where none was, or the call is
    -- recorded.
    inferred_by VARCHAR,  -- How that call was found: inherited (taken from another launch) or inferred (by trying calls on a GPU).
    is_repeat BOOLEAN,  -- TRUE where a better trace of the run holds the same launch: it is not in `kernels`.
    warps_per_multiprocessor DOUBLE  -- [warps] Warps per SM as the tool printed it.
);
