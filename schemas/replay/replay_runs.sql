-- Runs of the replay engine: where, with what software, how.
CREATE TABLE replay_runs (
    run_id VARCHAR NOT NULL,  -- Id of the run.
    started TIMESTAMP,  -- Start, UTC.
    finished BOOLEAN,  -- Whether every item of the plan was tried.
    device VARCHAR,  -- Device as torch names it: cuda:0, cpu.
    device_index INTEGER,  -- Index of the device.
    gpu VARCHAR,  -- Name of the GPU.
    vendor VARCHAR,  -- Its vendor.
    arch VARCHAR,  -- Its architecture, such as sm_90.
    driver VARCHAR,  -- Version of the driver.
    torch VARCHAR,  -- Version of PyTorch.
    cuda VARCHAR,  -- Version of CUDA that PyTorch was built with.
    cudnn VARCHAR,  -- Version of cuDNN.
    cublas VARCHAR,  -- Version of cuBLAS.
    kerneldb VARCHAR,  -- Version of kerneldb.
    cache VARCHAR,  -- State of the L2 before each timed call: cold, warm or mixed.
    l2_bytes BIGINT,  -- [bytes] L2 cache of the device.
    memory_bytes BIGINT,  -- [bytes] Memory of the device.
    multiprocessors INTEGER,  -- Multiprocessors of the device.
    arguments VARCHAR,  -- Options of the run, JSON.
    plan_notes VARCHAR,  -- What the plan was made from, JSON.
    uuid VARCHAR,  -- Which board it ran on.
    meter VARCHAR,  -- What measured energy: nvml, amdsmi, rapl, or the name of a plug-in.
    meter_period_ms DOUBLE,  -- [ms] Time between two steps of the energy counter, as observed.
    idle_power_w DOUBLE,  -- [W] Power before the device was used.
    context_power_w DOUBLE,  -- [W] Power with a context and an empty queue.
    launch_loop_power_w DOUBLE,  -- [W] Power while empty kernels run back to back.
    launch_loop_power_error_w DOUBLE,  -- [W] Half width of the 95 % interval of launch_loop_power_w.
    gap_ns DOUBLE,  -- [ns] Time between two kernels of a full queue.
    energy_reason VARCHAR,  -- Why no energy was measured.
    energy_drift DOUBLE,  -- Scatter of the re-measured anchor beyond its own errors, a share (1σ) that all energies of the run have in common.
    energy_details VARCHAR  -- JSON: seed and budget, errors of the powers, and every window of the anchor and of the gaps with its temperature and
    -- clocks.
);
