-- The time of one cause, and where most of it belongs.
WITH held AS (
    FROM found_places
    WHERE cause = $cause
)

SELECT
    sum(h.wall_ns)::DOUBLE AS at_stake_ns,
    100 * sum(h.wall_ns) / any_value(h.span_ns) AS share_pct,
    sum(h.n)::BIGINT AS n,
    sum(h.calls)::BIGINT AS calls,
    max(h.longest_ns)::DOUBLE AS longest_ns,
    max(h.call_ns)::DOUBLE AS call_ns,
    any_value(p.line) AS line,
    any_value(p.module) AS module,
    CASE WHEN $cause <> 'data loading' THEN any_value(p.op) END AS op,
    CASE WHEN $cause <> 'data loading' THEN any_value(p.call) END AS call,
    EXISTS (FROM api_calls WHERE trace_id IN (SELECT trace_id FROM held)) AS has_calls
FROM held AS h
CROSS JOIN _main_place('held') AS p
HAVING share_pct >= $least_pct;
