-- What changed between two traces or sets of traces, by operator, module or another key: the largest change of time first.
--
-- The rows add up to the change of the summed durations; by cause, to that of the wall time. Where the ranks of a job are here, a collective counts with its transfer, and
-- what launches waited for other ranks is a row of its own.
--
-- Arguments:
--   before_trace: as in diff
--   after_trace: as in diff
--   key: op, module, category, phase, dtype, kernel, or cause (part and cause of wall_time_budget).
--   source: A relation with the columns of `kernels`.
--   threshold: Share of the time before that may change without counting as changed.
-- Columns:
--   name VARCHAR: Value of the key; NULL where it is not known.
--   change VARCHAR: What the change is most: more of them, fewer of them, longer, shorter; only before, only after, or unchanged.
--   n_before BIGINT: Launches before (kernels, copies and fills, as n of top); by cause, pieces of time.
--   n_after BIGINT: The same after.
--   total_before_ns, total_after_ns: as in diff
--   delta_ns: as in diff
--   count_delta_ns BIGINT [ns]: What of the change is other numbers: their difference × the mean before; all of it where one side has none. Of
--     kernels, copies and fills apart: a fill less, of two microseconds, is no kernel less.
--   mean_delta_ns BIGINT [ns]: The rest: number after × the change of the mean.
-- Example:
--   FROM diff_by('first-rank0', 'second-rank0', 'module');
CREATE OR REPLACE MACRO diff_by(before_trace, after_trace, key := 'op', source := 'kernels', threshold := 0.03) AS TABLE
WITH _named_sides AS (
    SELECT 'before' AS side, trace FROM _traces_named(before_trace)
    UNION ALL
    SELECT 'after' AS side, trace FROM _traces_named(after_trace)
),

_compared AS (
    FROM query_table(source)
    WHERE timing = 'timeline' AND duration_ns IS NOT NULL AND trace IN (SELECT trace FROM _named_sides)
),

_waits AS (SELECT trace_id, launch_index, wait_ns FROM collective_instances() WHERE wait_ns > 0),

_launched AS (
    SELECT
        k.trace,
        CASE lower(key)
            WHEN 'op' THEN k.op
            WHEN 'module' THEN k.module
            WHEN 'category' THEN CASE WHEN k.kind = 'kernel' THEN k.category ELSE upper(k.kind) END
            WHEN 'phase' THEN k.phase
            WHEN 'dtype' THEN k.dtype
            WHEN 'kernel' THEN k.short_name
            ELSE error('diff_by takes op, module, category, phase, dtype, kernel or cause; not ' || key)
        END AS name,
        k.kind,
        k.duration_ns,
        least(coalesce(w.wait_ns, 0), k.duration_ns) AS wait_ns
    FROM _compared AS k
    LEFT JOIN _waits AS w ON k.trace_id = w.trace_id AND k.launch_index = w.launch_index
    WHERE lower(key) <> 'cause'
),

_parts AS (
    SELECT trace, name, kind, count(*) AS n, sum(duration_ns - wait_ns) AS total_ns FROM _launched GROUP BY ALL
    UNION ALL
    SELECT trace, '(waiting for other ranks)', NULL, count(*), sum(wait_ns) FROM _launched WHERE wait_ns > 0 GROUP BY ALL
    UNION ALL
    SELECT trace, CASE WHEN cause = part THEN part ELSE part || ': ' || cause END, NULL, n, wall_ns
    FROM wall_time_budget('_compared')
    WHERE lower(key) = 'cause'
),

_sums AS (
    SELECT
        p.name,
        coalesce(sum(p.n) FILTER (s.side = 'before'), 0)::BIGINT AS n_before,
        coalesce(sum(p.n) FILTER (s.side = 'after'), 0)::BIGINT AS n_after,
        try_cast(coalesce(sum(p.total_ns) FILTER (s.side = 'before'), 0) AS BIGINT) AS total_before_ns,
        try_cast(coalesce(sum(p.total_ns) FILTER (s.side = 'after'), 0) AS BIGINT) AS total_after_ns
    FROM _parts AS p
    INNER JOIN _named_sides AS s USING (trace)
    GROUP BY p.name, p.kind
),

_split AS (
    SELECT
        *,
        total_after_ns - total_before_ns AS delta_ns,
        CASE
            WHEN n_before = 0 OR n_after = 0 THEN delta_ns
            ELSE round((n_after - n_before) * (total_before_ns / n_before))::BIGINT
        END AS count_delta_ns
    FROM _sums
),

_whole AS (
    SELECT
        name,
        sum(n_before)::BIGINT AS n_before,
        sum(n_after)::BIGINT AS n_after,
        try_cast(sum(total_before_ns) AS BIGINT) AS total_before_ns,
        try_cast(sum(total_after_ns) AS BIGINT) AS total_after_ns,
        try_cast(sum(delta_ns) AS BIGINT) AS delta_ns,
        try_cast(sum(count_delta_ns) AS BIGINT) AS count_delta_ns
    FROM _split
    GROUP BY name
)

SELECT
    name,
    CASE
        WHEN n_before = 0 THEN 'only after'
        WHEN n_after = 0 THEN 'only before'
        WHEN abs(delta_ns) <= threshold * total_before_ns THEN 'unchanged'
        WHEN abs(count_delta_ns) >= abs(delta_ns - count_delta_ns) THEN CASE WHEN count_delta_ns > 0 THEN 'more of them' ELSE 'fewer of them' END
        WHEN delta_ns > count_delta_ns THEN 'longer'
        ELSE 'shorter'
    END AS change,
    n_before,
    n_after,
    total_before_ns,
    total_after_ns,
    delta_ns,
    count_delta_ns,
    delta_ns - count_delta_ns AS mean_delta_ns
FROM _whole
ORDER BY abs(delta_ns) DESC, name;
