-- The launches of a timeline as the sweeps over wall time read them, a few numbers each. `place` is the device of a trace (`_wall_places`). Class 1 computes (fills,
-- too, as in gpu_time), 2 communicates, 3 and more copy (4 to the host, 5 from it). `launch_end_ns` is the end of the launch call. `fact` is what is
-- summed separately: signature and place in the program. `needed` is the share of its time that the peaks of the GPU allow it, `is_compute` which of them.
CREATE OR REPLACE MACRO _wall_launches(source) AS TABLE
SELECT
    t.number << 33 | coalesce(l.device::BIGINT + 2147483648, 4294967296) AS place,
    l.launch_index,
    CASE WHEN l.kind = 'memcpy' THEN CASE l.copy_kind WHEN 'DtoH' THEN 4 WHEN 'HtoD' THEN 5 ELSE 3 END WHEN l.category = 'COMMUNICATION' THEN 2 ELSE 1 END::TINYINT AS class,
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
INNER JOIN _trace_numbers AS t USING (trace_id)
WHERE l.timing = 'timeline' AND l.start_ns IS NOT NULL AND l.end_ns IS NOT NULL;
