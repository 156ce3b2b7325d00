-- The launches of `launched`, with columns of _reconciliation_launches, summed by signature and workload, over all iterations. Columns of a
-- signature are equal in all of its launches.
CREATE OR REPLACE MACRO _reconciliation_sums(launched) AS TABLE
SELECT
    trace_id,
    workload,
    signature_id,
    inferred_id,
    inferred_by,
    any_value(short_name) AS kernel,
    any_value(kind) AS kind,
    any_value(category) AS category,
    any_value(library) AS library,
    min(unmatched) AS unmatched,
    count(*) AS n,
    sum(duration_ns)::DOUBLE AS total_ns,
    sum(wait_ns)::DOUBLE AS wait_ns
FROM query_table(launched)
GROUP BY trace_id, workload, signature_id, inferred_id, inferred_by
ORDER BY ALL;
