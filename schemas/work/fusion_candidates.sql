-- What a compiler could fuse: runs of small kernels that only move data, one behind the other on a stream.
--
-- One row per sequence of names, however often it occurs. Fused, a run costs at least its longest kernel: the rest, and the pauses between the kernels
-- up to 10 µs each, is an upper bound of what fusing saves (`at_stake_ns`).
--
-- Arguments:
--   source: A relation with the columns of `kernels`.
--   longest_ns: [ns] The longest kernel that counts as small.
-- Columns:
--   trace: as in kernels
--   kernels_in_run BIGINT: Length of the run.
--   runs BIGINT: How often the run occurs.
--   total_ns BIGINT [ns]: Summed duration.
--   at_stake_ns BIGINT [ns]: All but the longest kernel of each run, and the pauses.
--   kernel_ns_at_stake BIGINT [ns]: The same without the pauses.
--   kernels VARCHAR: Short names in order.
--   ops VARCHAR: Operators in order.
-- Example:
--   SELECT kernels, runs, total_ns, at_stake_ns FROM fusion_candidates(longest_ns := 50000);
CREATE OR REPLACE MACRO fusion_candidates(source := 'kernels', longest_ns := 20000) AS TABLE
-- Runs are compared by the sum of a 64-bit hash of each name with its place in the run, and only one run of each sequence is spelled out: an ordered
-- list per run costs more than all the rest.
WITH _activities AS (
    SELECT
        trace,
        coalesce(device, -1) AS place,
        coalesce(stream, -1) AS lane,
        launch_index,
        start_ns,
        end_ns,
        duration_ns,
        short_name,
        op,
        coalesce(
            kind = 'kernel'
            AND category IN ('ELEMENTWISE', 'REDUCTION', 'NORMALIZATION', 'SOFTMAX', 'COPY', 'CONCAT', 'INDEXING')
            AND duration_ns <= longest_ns,
            false
        ) AS is_small
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL
),

-- A sum of cases: a window with FILTER takes quadratic time.
_ordered AS (
    SELECT
        *,
        row_number() OVER in_time AS number,
        sum(CASE WHEN is_small THEN 0 ELSE 1 END) OVER (in_time ROWS UNBOUNDED PRECEDING) AS island
    FROM _activities
    WINDOW in_time AS (PARTITION BY trace, place, lane ORDER BY start_ns, launch_index)
),

_small AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY trace, place, lane, island ORDER BY number) AS position
    FROM _ordered
    WHERE is_small
),

_runs AS (
    SELECT
        trace,
        place,
        lane,
        island,
        count(*) AS length,
        sum(hash(short_name, position)) AS sequence,
        sum(duration_ns) AS total_ns,
        sum(duration_ns) - max(duration_ns) AS saved_ns,
        max(end_ns) - min(start_ns) - sum(duration_ns) AS pauses_ns
    FROM _small
    GROUP BY trace, place, lane, island
    HAVING count(*) > 1
),

_alike AS (
    SELECT
        trace,
        length,
        sequence,
        count(*) AS runs,
        try_cast(sum(total_ns) AS BIGINT) AS total_ns,
        try_cast(sum(saved_ns + least(greatest(pauses_ns, 0), 10000 * (length - 1))) AS BIGINT) AS at_stake_ns,
        try_cast(sum(saved_ns) AS BIGINT) AS kernel_ns_at_stake,
        min((place, lane, island)) AS example
    FROM _runs
    GROUP BY trace, length, sequence
),

_spelled AS (
    SELECT
        a.trace,
        a.length,
        a.sequence,
        string_agg(s.short_name, ' -> ' ORDER BY s.position) AS kernels,
        string_agg(s.op, ' -> ' ORDER BY s.position) AS ops
    FROM _small AS s
    INNER JOIN _alike AS a ON s.trace = a.trace AND (s.place, s.lane, s.island) = a.example
    GROUP BY a.trace, a.length, a.sequence
)

SELECT
    a.trace,
    a.length AS kernels_in_run,
    a.runs,
    a.total_ns,
    a.at_stake_ns,
    a.kernel_ns_at_stake,
    s.kernels,
    s.ops
FROM _alike AS a
INNER JOIN _spelled AS s USING (trace, length, sequence)
ORDER BY a.at_stake_ns DESC, a.trace, s.kernels;
