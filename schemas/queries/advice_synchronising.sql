-- The time that waiting for the GPU cost, where most of it belongs, and what the host did after these waits had ended. A value that is read is copied, too.
--
-- `frame` is what covers most of a gap after such a wait (`_host_doing`), of the hundred longest gaps of 200 µs and more, and only where it is at least half of
-- the time of these waits. The host was in no call meanwhile (`quiet_ns` in all).
WITH held AS (
    FROM found_places
    WHERE cause = 'synchronisation' OR (part = 'copy' AND op = 'aten::_local_scalar_dense')
),

main AS MATERIALIZED (FROM _main_place('held')),

told AS (
    SELECT h.*
    FROM held AS h
    INNER JOIN main AS p
        ON h.call = p.call AND (p.line IS NULL OR h.line = p.line) AND (p.op IS NULL OR h.call_op = p.op)
),

gaps AS MATERIALIZED (
    SELECT trace_id, c.*, c.waited_until_ns AS since_ns, c.start_ns + c.duration_ns AS end_ns, row_number() OVER (ORDER BY c.duration_ns DESC, c.start_ns, c.process, c.thread) AS gap
    FROM (SELECT trace_id, unnest(carried) AS c FROM told)
    WHERE c.duration_ns >= 200000
    QUALIFY gap <= 100
),

quiet AS (
    SELECT
        g.gap,
        greatest(
            0,
            any_value(g.duration_ns) - coalesce(
                sum(least(a.start_ns + a.duration_ns, g.end_ns) - greatest(a.start_ns, g.start_ns)) FILTER (a.api_index IS NOT NULL), 0
            )
        ) AS quiet_ns
    FROM gaps AS g
    LEFT JOIN api_calls AS a
        ON
            g.trace_id = a.trace_id
            AND g.process = a.process
            AND g.thread = a.thread
            AND a.start_ns < g.end_ns
            AND a.start_ns + a.duration_ns > g.start_ns
    GROUP BY g.gap
),

did AS (FROM _host_doing('gaps')),

doing AS (
    SELECT
        d.doing.name AS frame,
        bool_or(d.doing.is_frame) AS is_frame,
        sum(least(d.doing.covered_ns, q.quiet_ns))::BIGINT AS frame_ns,
        max(least(d.doing.covered_ns, q.quiet_ns))::BIGINT AS longest_ns,
        count(*) AS n
    FROM did AS d
    INNER JOIN quiet AS q USING (gap)
    GROUP BY frame
),

meanwhile AS (
    SELECT
        (SELECT sum(wall_ns) FROM told) AS told_ns,
        (SELECT sum(quiet_ns) FROM quiet) AS quiet_ns,
        arg_min({'frame': frame, 'frame_ns': frame_ns, 'longest_ns': longest_ns, 'n': n}, (-frame_ns, frame)) AS most
    FROM doing
)

SELECT
    sum(h.wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(h.wall_ns) / any_value(h.span_ns) AS share_pct,
    sum(h.n)::BIGINT AS n,
    sum(h.calls)::BIGINT AS calls,
    max(h.longest_ns)::DOUBLE AS longest_ns,
    any_value(p.line) AS line,
    any_value(p.module) AS module,
    any_value(p.op) AS op,
    any_value(p.call) AS call,
    any_value(CASE WHEN 2 * m.quiet_ns >= m.told_ns THEN m.quiet_ns END)::DOUBLE AS quiet_ns,
    any_value(CASE WHEN 2 * m.most.frame_ns >= m.told_ns THEN m.most.frame END) AS frame,
    regexp_replace(frame, '^(.*)\((\d+)\): (.*)$', '\3 (\1:\2)') AS doing,
    regexp_replace(frame, '^(.*)\((\d+)\): (.*)$', '\3') AS doing_name,
    any_value(CASE WHEN 2 * m.most.frame_ns >= m.told_ns THEN m.most.frame_ns END)::DOUBLE AS frame_ns,
    any_value(CASE WHEN 2 * m.most.frame_ns >= m.told_ns THEN m.most.longest_ns END)::DOUBLE AS frame_longest_ns,
    any_value(CASE WHEN 2 * m.most.frame_ns >= m.told_ns THEN m.most.n END)::BIGINT AS frame_n
FROM held AS h
CROSS JOIN main AS p
CROSS JOIN meanwhile AS m
HAVING share_pct >= $least_pct;
