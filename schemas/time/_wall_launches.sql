-- The launches of a timeline as the sweeps over wall time read them, a few numbers each. `places` names rows of `_wall_places`. Class 1 computes (fills, too, as in
-- gpu_time), 2 communicates, 3 copies. `launch_end_ns` is the end of the launch call. `fact` tells apart what is summed apart: signature and place in the
-- program. `needed` is the share of its time that the peaks of the GPU allow it, `is_compute` which of them.
CREATE OR REPLACE MACRO _wall_launches(source, places) AS TABLE
SELECT
    p.place,
    l.launch_index,
    CASE WHEN l.kind = 'memcpy' THEN 3 WHEN l.category = 'COMMUNICATION' THEN 2 ELSE 1 END::TINYINT AS class,
    l.start_ns,
    greatest(l.start_ns, l.end_ns) AS end_ns,
    l.launch_start_ns + coalesce(l.launch_duration_ns, 0) AS launch_end_ns,
    l.api_index,
    l.process,
    hash(l.signature_id, l.inferred_id, l.module, l.python_line, l.launch_status = 'graph' OR l.graph_id IS NOT NULL) AS fact,
    CASE
        WHEN l.pct_peak_flops IS NOT NULL OR l.pct_peak_bandwidth IS NOT NULL
            THEN least(1, greatest(coalesce(l.pct_peak_flops, 0), coalesce(l.pct_peak_bandwidth, 0)) / 100)
    END AS needed,
    coalesce(l.pct_peak_flops, 0) >= coalesce(l.pct_peak_bandwidth, 0) AS is_compute
FROM query_table(source) AS l
INNER JOIN query_table(places) AS p ON l.trace_id = p.trace_id AND l.device IS NOT DISTINCT FROM p.device
WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL;
