-- The launches of a relation with the columns of `kernels`, summed per trace, signature, call, phase and timing. For the name `kernels` itself these
-- are the rows of `kernel_rollups`: sums that are stored, and those that profilers printed of launches that no file holds.
CREATE OR REPLACE MACRO _launch_rollups(relation) AS TABLE
WITH _launched AS (
    SELECT
        trace,
        any_value(kind) AS kind,
        any_value(name) AS name,
        any_value(short_name) AS short_name,
        any_value(category) AS category,
        any_value(family) AS family,
        any_value(library) AS library,
        any_value(operation) AS operation,
        any_value(dtype) AS dtype,
        op,
        inferred_by,
        phase,
        timing,
        'launches' AS origin,
        count(*) AS n,
        count(duration_ns) AS timed,
        try_cast(sum(duration_ns) AS BIGINT) AS total_ns,
        min(duration_ns) AS min_ns,
        max(duration_ns) AS max_ns,
        sum(duration_ns::DOUBLE * duration_ns) AS sum_squares_ns2,
        signature_id,
        any_value(name_id) AS name_id
    FROM query_table(CASE relation WHEN 'kernels' THEN '_no_launches' ELSE relation END)
    GROUP BY trace, signature_id, op, inferred_by, phase, timing
)

SELECT
    trace, kind, name, short_name, category, family, library, operation, dtype, op, inferred_by, phase, timing, origin, n, timed, total_ns, min_ns,
    max_ns, sum_squares_ns2, signature_id, name_id
FROM query_table(CASE relation WHEN 'kernels' THEN 'kernel_rollups' ELSE '_launched' END);
