-- The launches of a timeline as the sweeps over wall time read them: `place` numbers the devices, so that nothing is sorted or joined by names. Class 1
-- computes (fills, too, as in gpu_time), 2 communicates, 3 copies. `launch_end_ns` is the end of the launch call.
CREATE OR REPLACE MACRO _wall_launches(source) AS TABLE
WITH _places AS (
    SELECT trace, trace_id, device, row_number() OVER (ORDER BY trace, device) AS place
    FROM (SELECT DISTINCT trace, trace_id, device FROM query_table(source) WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL)
)

SELECT
    p.place,
    p.trace,
    p.trace_id,
    p.device,
    l.launch_index,
    CASE WHEN l.kind = 'memcpy' THEN 3 WHEN l.category = 'COMMUNICATION' THEN 2 ELSE 1 END AS class,
    l.kind,
    l.copy_kind,
    l.start_ns,
    greatest(l.start_ns, l.end_ns) AS end_ns,
    l.launch_start_ns,
    l.launch_start_ns + coalesce(l.launch_duration_ns, 0) AS launch_end_ns,
    l.api_index,
    l.process
FROM query_table(source) AS l
INNER JOIN _places AS p ON l.trace = p.trace AND l.device IS NOT DISTINCT FROM p.device
WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL;
