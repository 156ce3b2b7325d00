-- How much of computation, communication and copies ran at the same time, per device: two kinds overlap by the sum of their lengths less
-- the length of both together (time_unions). Fills (memset) move bytes and compute nothing: they count as copies.
CREATE OR REPLACE MACRO overlap(source) AS TABLE
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
FROM time_unions(source, fills := 'copies')
ORDER BY trace, device;
