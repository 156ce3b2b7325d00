-- FROM launch_rollups('selection'): the launches of a relation with the columns of `kernels`, summed per trace and signature. Has the
-- columns of `kernel_rollups` that comparisons read.
CREATE OR REPLACE MACRO launch_rollups(source) AS TABLE
SELECT
    trace,
    any_value(kind) AS kind,
    any_value(short_name) AS short_name,
    any_value(category) AS category,
    -- Calls found for launches of one signature may differ.
    coalesce(any_value(op) FILTER (found_by IS NULL), CASE WHEN min(op) = max(op) THEN min(op) END) AS op,
    CASE WHEN bool_or(op IS NOT NULL AND found_by IS NULL) IS NOT TRUE THEN min(found_by) END AS found_by,
    timing = 'timeline' AND bool_and(counted) AS counted,
    count(*) AS n,
    count(duration_ns) AS timed,
    sum(duration_ns)::BIGINT AS total_ns,
    sum(duration_ns::DOUBLE * duration_ns) AS sum_squares_ns2,
    signature_id,
    any_value(name_id) AS name_id
FROM query_table(source)
GROUP BY trace, signature_id, timing;
