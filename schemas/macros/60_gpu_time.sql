-- Where the time of each device went (lengths of unions of intervals: time_unions). Exposed is what no computation hides (for copies:
-- neither computation nor communication). Fills (memset) count as computation, as in TraceLens' gpu_timeline; in `overlap` as copies.
CREATE OR REPLACE MACRO gpu_time(source) AS TABLE
SELECT
    trace,
    device,
    n,
    start_ns,
    end_ns,
    end_ns - start_ns AS span_ns,
    busy_ns,
    end_ns - start_ns - busy_ns AS idle_ns,
    100::DOUBLE * busy_ns / nullif(end_ns - start_ns, 0) AS busy_pct,
    total_ns,
    kernel_ns,
    total_ns - busy_ns AS overlap_ns,
    computation_ns,
    communication_ns AS total_communication_ns,
    computation_or_communication_ns - computation_ns AS exposed_communication_ns,
    copy_ns AS total_memcpy_ns,
    busy_ns - computation_or_communication_ns AS exposed_memcpy_ns
FROM time_unions(source)
ORDER BY trace, device;
