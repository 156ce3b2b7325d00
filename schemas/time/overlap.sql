-- How much of computation, communication and copies ran at the same time on each device.
--
-- Two kinds overlap by the sum of their lengths less the length of both together. Fills (memset) count as computation, as in
-- gpu_time and wall_time_budget.
--
-- Columns:
--   trace, device: as in kernels
--   busy_ns: as in gpu_time
--   computation_ns: as in gpu_time
--   communication_ns BIGINT [ns]: Time in which communication ran.
--   copy_ns BIGINT [ns]: Time in which copies ran.
--   computation_communication_ns BIGINT [ns]: Time in which computation and communication ran.
--   computation_copy_ns BIGINT [ns]: Time in which computation and copies ran.
--   communication_copy_ns BIGINT [ns]: Time in which communication and copies ran.
--   exposed_communication_ns: as in gpu_time
--   exposed_copy_ns BIGINT [ns]: Time in which only copies ran.
--   hidden_communication_pct DOUBLE [%]: Share of communication behind which computation ran.
-- Example:
--   SELECT trace, device, computation_ns, communication_ns, copy_ns, hidden_communication_pct FROM overlap();
CREATE OR REPLACE MACRO overlap(source := 'kernels') AS TABLE
SELECT
    trace,
    device,
    busy_ns,
    computation_ns,
    communication_ns,
    copy_ns,
    computation_ns + communication_ns - computation_or_communication_ns AS computation_communication_ns,
    computation_ns + copy_ns - computation_or_copy_ns AS computation_copy_ns,
    communication_ns + copy_ns - communication_or_copy_ns AS communication_copy_ns,
    computation_or_communication_ns - computation_ns AS exposed_communication_ns,
    busy_ns - computation_or_communication_ns AS exposed_copy_ns,
    100::DOUBLE * (computation_ns + communication_ns - computation_or_communication_ns) / nullif(communication_ns, 0)
        AS hidden_communication_pct
FROM _time_unions(source)
ORDER BY trace, device;
