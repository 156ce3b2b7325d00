-- The rules of kerneldb/times.py for rows that were stored before all readers kept them: for a migration, all blocks in this order, without
-- parameters; the sums of `times_traces` are made anew before the last one. The rule of the recorded window is not among them: what a file
-- stated of it was not stored. Run once more, they change nothing.

-- name: times_rules
-- A week and 2^61, in ns; why a row is refused, NULL where it is not. HUGEINT: differences and products of bad times do not fit into 64 bits.
CREATE OR REPLACE TEMP MACRO refused_span(start_ns, duration_ns) AS CASE
    WHEN NOT (start_ns BETWEEN -2305843009213693952 AND 2305843009213693952) THEN 'with a time that no clock shows'
    WHEN duration_ns < 0 THEN 'with a negative duration'
    WHEN duration_ns > 604800000000000 THEN 'longer than 7 days'
END;
CREATE OR REPLACE TEMP MACRO refused_moment(ts_ns) AS CASE
    WHEN NOT (ts_ns BETWEEN -2305843009213693952 AND 2305843009213693952) THEN 'with a time that no clock shows'
END;
CREATE OR REPLACE TEMP MACRO refused_sum(n, total_ns, min_ns, max_ns, median_ns, sum_squares_ns2) AS CASE
    WHEN least(total_ns, min_ns, max_ns, median_ns, sum_squares_ns2) < 0 THEN 'with a negative duration'
    WHEN
        greatest(min_ns, max_ns, median_ns) > 604800000000000
        OR total_ns > n * 604800000000000::DOUBLE
        OR (sum_squares_ns2 > n * 604800000000000::DOUBLE * 604800000000000 AND NOT isnan(sum_squares_ns2))
        THEN 'longer than 7 days'
END;
CREATE OR REPLACE TEMP MACRO whole_length(start_ns, end_ns, duration_ns) AS coalesce(duration_ns::HUGEINT, end_ns::HUGEINT - start_ns::HUGEINT);

-- name: times_found
-- What is refused, by trace: sums of launches are made anew, so that those of tools alone are looked at.
CREATE OR REPLACE TEMP TABLE refused_times AS
WITH spans AS (
    SELECT
        l.trace_id,
        'launch' AS what,
        k.name,
        refused_span(l.start_ns, whole_length(l.start_ns, l.end_ns, l.duration_ns)) AS reason,
        l.start_ns,
        whole_length(l.start_ns, l.end_ns, l.duration_ns) AS duration_ns
    FROM launches AS l
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN kernel_names AS k USING (name_id)
    UNION ALL
    SELECT
        l.trace_id,
        'launching call' AS what,
        k.name,
        refused_span(l.launch_start_ns, l.launch_duration_ns) AS reason,
        l.launch_start_ns,
        l.launch_duration_ns::HUGEINT
    FROM launches AS l
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN kernel_names AS k USING (name_id)
    WHERE l.api_index IS NULL
    UNION ALL
    SELECT trace_id, 'launch in a queue', NULL, refused_moment(queued_ns), queued_ns, NULL FROM launches
    UNION ALL
    SELECT trace_id, 'operator', name, refused_span(start_ns, duration_ns), start_ns, duration_ns FROM ops
    UNION ALL
    SELECT trace_id, 'API call', name, refused_span(start_ns, duration_ns), start_ns, duration_ns FROM api_calls
    UNION ALL
    SELECT trace_id, 'range', name, refused_span(start_ns, duration_ns), start_ns, duration_ns FROM ranges
    UNION ALL
    SELECT trace_id, 'allocation or release', NULL, refused_moment(ts_ns), ts_ns, NULL FROM memory_events
    UNION ALL
    SELECT trace_id, 'sample', NULL, refused_moment(ts_ns), ts_ns, NULL FROM samples
    UNION ALL
    SELECT
        r.trace_id,
        'sum over launches',
        k.name,
        refused_sum(r.n, r.total_ns, r.min_ns, r.max_ns, r.median_ns, r.sum_squares_ns2),
        NULL,
        r.total_ns
    FROM rollups AS r
    LEFT JOIN signatures AS s USING (signature_id)
    LEFT JOIN kernel_names AS k USING (name_id)
    WHERE r.origin <> 'launches'
)

SELECT
    trace_id,
    what || ' ' || reason AS reason,
    count(*) AS n,
    first(
        coalesce(name || ': ', '')
        || format('{:,} ns', CASE WHEN reason = 'with a time that no clock shows' THEN start_ns ELSE duration_ns END)
    ) AS example
FROM spans
WHERE reason IS NOT NULL
GROUP BY trace_id, what, reason;

-- name: times_reports
INSERT INTO ingest_reports BY NAME
SELECT trace_id, 0 AS file_index, 'refused' AS outcome, reason, n, example
FROM refused_times
ORDER BY trace_id, reason;

-- name: times_former_notes
-- What the readers of AMD's profilers said of some of these events before.
DELETE FROM ingest_reports
WHERE
    outcome = 'note'
    AND reason IN ('activity that ends before it starts, without a duration', 'time that no clock shows, left empty')
    AND trace_id IN (SELECT trace_id FROM refused_times);

-- name: times_launches
UPDATE launches SET
    start_ns = CASE WHEN refused_moment(start_ns) IS NULL THEN start_ns END,
    end_ns = CASE WHEN refused_span(start_ns, whole_length(start_ns, end_ns, duration_ns)) IS NULL THEN end_ns END,
    duration_ns = CASE WHEN duration_ns BETWEEN 0 AND 604800000000000 THEN duration_ns END,
    launch_start_ns = CASE WHEN refused_moment(launch_start_ns) IS NULL THEN launch_start_ns END,
    launch_duration_ns = CASE WHEN launch_duration_ns BETWEEN 0 AND 604800000000000 THEN launch_duration_ns END,
    queued_ns = CASE WHEN refused_moment(queued_ns) IS NULL THEN queued_ns END
WHERE
    refused_span(start_ns, whole_length(start_ns, end_ns, duration_ns)) IS NOT NULL
    OR refused_span(launch_start_ns, launch_duration_ns) IS NOT NULL
    OR refused_moment(queued_ns) IS NOT NULL;

-- name: times_ops
UPDATE ops SET
    start_ns = CASE WHEN refused_moment(start_ns) IS NULL THEN start_ns END,
    duration_ns = CASE WHEN duration_ns BETWEEN 0 AND 604800000000000 THEN duration_ns END
WHERE refused_span(start_ns, duration_ns) IS NOT NULL;

-- name: times_api_calls
UPDATE api_calls SET
    start_ns = CASE WHEN refused_moment(start_ns) IS NULL THEN start_ns END,
    duration_ns = CASE WHEN duration_ns BETWEEN 0 AND 604800000000000 THEN duration_ns END
WHERE refused_span(start_ns, duration_ns) IS NOT NULL;

-- name: times_ranges
UPDATE ranges SET
    start_ns = CASE WHEN refused_moment(start_ns) IS NULL THEN start_ns END,
    duration_ns = CASE WHEN duration_ns BETWEEN 0 AND 604800000000000 THEN duration_ns END
WHERE refused_span(start_ns, duration_ns) IS NOT NULL;

-- name: times_memory_events
UPDATE memory_events SET ts_ns = NULL WHERE refused_moment(ts_ns) IS NOT NULL;

-- name: times_samples
UPDATE samples SET ts_ns = NULL WHERE refused_moment(ts_ns) IS NOT NULL;

-- name: times_rollups
UPDATE rollups SET total_ns = NULL, min_ns = NULL, max_ns = NULL, median_ns = NULL, sum_squares_ns2 = NULL, timed = 0
WHERE origin <> 'launches' AND refused_sum(n, total_ns, min_ns, max_ns, median_ns, sum_squares_ns2) IS NOT NULL;

-- name: times_windows
-- First start and last end of what has a time. Readers of AMD's profilers count ranges and allocations, too.
UPDATE traces SET window_start_ns = found.first_ns, window_end_ns = found.last_ns
FROM (
    WITH timed AS (
        SELECT trace_id, start_ns, coalesce(end_ns, start_ns + duration_ns, start_ns) AS end_ns FROM launches
        UNION ALL
        SELECT trace_id, start_ns, start_ns + coalesce(duration_ns, 0) FROM ops
        UNION ALL
        SELECT trace_id, start_ns, start_ns + coalesce(duration_ns, 0) FROM api_calls
        UNION ALL
        SELECT r.trace_id, r.start_ns, r.start_ns + coalesce(r.duration_ns, 0)
        FROM ranges AS r
        INNER JOIN traces AS t USING (trace_id)
        WHERE t.source IN ('rocprofv3', 'rocprof', 'rpd')
        UNION ALL
        SELECT m.trace_id, m.ts_ns, m.ts_ns
        FROM memory_events AS m
        INNER JOIN traces AS t USING (trace_id)
        WHERE t.source IN ('rocprofv3', 'rocprof', 'rpd')
    )

    SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM timed
    WHERE trace_id IN (SELECT trace_id FROM refused_times) AND start_ns IS NOT NULL
    GROUP BY trace_id
) AS found
WHERE traces.trace_id = found.trace_id AND traces.window_start_ns IS NOT NULL;

-- name: times_traces
SELECT DISTINCT trace_id FROM refused_times ORDER BY trace_id;

-- name: times_done
DROP TABLE refused_times;
DROP MACRO refused_span;
DROP MACRO refused_moment;
DROP MACRO refused_sum;
DROP MACRO whole_length;
