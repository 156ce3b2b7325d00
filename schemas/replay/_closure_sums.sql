-- The launches of `launched`, with columns of _closure_launches, summed by signature and stage, over all iterations. What a signature is stands in each
-- of its launches alike.
CREATE OR REPLACE MACRO _closure_sums(launched) AS TABLE
SELECT
    trace_id,
    stage,
    signature_id,
    found_id,
    found_by,
    any_value(short_name) AS kernel,
    any_value(kind) AS kind,
    any_value(category) AS category,
    any_value(library) AS library,
    min(unmatched) AS unmatched,
    count(*) AS n,
    sum(duration_ns)::DOUBLE AS total_ns,
    sum(wait_ns)::DOUBLE AS wait_ns
FROM query_table(launched)
GROUP BY trace_id, stage, signature_id, found_id, found_by
ORDER BY ALL;
