-- The rows of `report_idle`, from those of `report_wall`, which has cut the time into pieces already.
WITH _held AS (
    SELECT device, part, cause, call, n, wall_ns, longest_ns, idle_each, sum(wall_ns) OVER (PARTITION BY device) AS span_ns
    FROM found_wall
    QUALIFY part IN ('host', 'queue', 'unattributed')
),

_called AS (
    SELECT device, part, cause, first(call ORDER BY ns DESC, call) AS waiting_call
    FROM (SELECT device, part, cause, call, sum(wall_ns) AS ns FROM _held WHERE call IS NOT NULL GROUP BY ALL)
    GROUP BY ALL
)

SELECT
    $trace AS trace,
    h.device,
    h.part,
    h.cause,
    sum(h.n)::BIGINT AS n,
    try_cast(sum(h.wall_ns) AS BIGINT) AS idle_ns,
    100 * sum(h.wall_ns) / any_value(h.span_ns) AS share_pct,
    list_aggregate(flatten(list(h.idle_each)), 'median')::DOUBLE AS median_ns,
    max(h.longest_ns) AS max_ns,
    any_value(c.waiting_call) AS waiting_call
FROM _held AS h
LEFT JOIN _called AS c ON h.device IS NOT DISTINCT FROM c.device AND h.part = c.part AND h.cause = c.cause
GROUP BY h.device, h.part, h.cause
ORDER BY h.device, idle_ns DESC, h.cause;
