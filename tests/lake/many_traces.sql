INSERT INTO traces BY NAME
SELECT 'trace-' || i AS trace_id, 't' || i AS name, 'job-' || (i // 8) AS stated_run, 'timeline' AS kind, 'pytorch' AS source, i % 8 AS rank, 600 AS launches
FROM range(120) AS r(i);
INSERT INTO kernel_names BY NAME
SELECT 'n' || i AS name_id, 'kernel_' || i AS name, 'kernel_' || i AS short_name, 'kernel' AS kind, 'GEMM' AS category FROM range(90) AS r(i);
INSERT INTO signatures BY NAME
SELECT 's' || i AS signature_id, 'kernel' AS kind, 'n' || (i % 90) AS name_id, 'launch' AS level, 'GEMM' AS category FROM range(300) AS r(i);
INSERT INTO launches BY NAME
SELECT
    'trace-' || t AS trace_id, j AS launch_index, 'kernel' AS kind, 'timeline' AS timing, 's' || ((j + t) % 300) AS signature_id,
    0 AS device, 7 AS stream, j * 1000 AS start_ns, j * 1000 + 500 + t AS end_ns, 500 + t AS duration_ns, 'no_op' AS launch_status
FROM range(120) AS a(t), range(600) AS b(j)
ORDER BY t, j;
INSERT INTO rollups BY NAME
SELECT trace_id, 'launches' AS origin, device, stream, signature_id, timing, count(*) AS n, count(*) AS timed, sum(duration_ns)::BIGINT AS total_ns,
    min(duration_ns) AS min_ns, max(duration_ns) AS max_ns
FROM launches GROUP BY ALL
