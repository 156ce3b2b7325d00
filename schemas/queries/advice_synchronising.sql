-- Shares are of the time of all devices together; each row of `idle` has the share of its own.
WITH spans AS (SELECT device, max(100 * idle_ns / share_pct) AS span_ns FROM found_idle GROUP BY device),

waited AS (
    SELECT
        sum(idle_ns)::DOUBLE AS idle_ns,
        100 * sum(idle_ns) / (SELECT sum(span_ns) FROM spans) AS share_pct,
        arg_max(waiting_call, (idle_ns, waiting_call)) AS waiting_call
    FROM found_idle
    WHERE cause IN ('sync', 'allocation')
)

SELECT idle_ns AS at_stake_ns, idle_ns, share_pct, waiting_call
FROM waited
WHERE share_pct >= 1;
