-- Runs of small kernels that only move data, one behind the other on a stream: what a compiler could fuse. One row per sequence of names,
-- however often it occurs. Fused, a run costs at least its longest kernel; the rest, and the pauses between the kernels up to 10 us each,
-- is `at_stake_ns`, an upper bound of what fusing saves.
CREATE OR REPLACE MACRO fusion_candidates(source, longest_ns := 20000) AS TABLE
WITH ordered AS (
    SELECT
        trace,
        device,
        stream,
        start_ns,
        end_ns,
        duration_ns,
        short_name,
        op,
        kind = 'kernel'
        AND category IN ('ELEMENTWISE', 'REDUCTION', 'NORMALIZATION', 'SOFTMAX', 'COPY', 'CONCAT', 'INDEXING')
        AND duration_ns <= longest_ns AS is_small,
        row_number() OVER in_time AS place
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
    WINDOW in_time AS (PARTITION BY trace, device, stream ORDER BY start_ns, launch_index)
),

small AS (
    SELECT
        *,
        place - row_number() OVER (PARTITION BY trace, device, stream ORDER BY place) AS island,
        start_ns - lag(end_ns) OVER (PARTITION BY trace, device, stream ORDER BY place) AS pause_ns
    FROM ordered
    WHERE is_small
),

runs AS (
    SELECT
        trace,
        list(short_name ORDER BY place) AS kernels,
        list(op ORDER BY place) AS ops,
        count(*) AS length,
        sum(duration_ns) AS total_ns,
        sum(duration_ns) - max(duration_ns) AS saved_ns,
        max(end_ns) - min(start_ns) - sum(duration_ns) AS pauses_ns
    FROM small
    GROUP BY trace, device, stream, island
    HAVING count(*) > 1
)

SELECT
    trace,
    length AS kernels_in_run,
    count(*) AS runs,
    sum(total_ns)::BIGINT AS total_ns,
    sum(saved_ns + least(greatest(pauses_ns, 0), 10000 * (length - 1)))::BIGINT AS at_stake_ns,
    sum(saved_ns)::BIGINT AS kernel_ns_at_stake,
    array_to_string(kernels, ' -> ') AS kernels,
    array_to_string(any_value(ops), ' -> ') AS ops
FROM runs
GROUP BY trace, length, runs.kernels
ORDER BY at_stake_ns DESC, trace, kernels;
