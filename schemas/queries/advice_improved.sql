-- What was tried in a step of the trace, and pays there: its share of the GPU time of all of it.
SELECT
    i.busy_gain * (SELECT sum(total_ns) FROM kernel_rollups WHERE trace = $trace AND timing <> 'profiled')::DOUBLE AS at_stake_ns,
    i.what,
    100 * i.busy_gain AS saved_pct,
    100 * i.busy_gain_low AS low_pct,
    100 * i.busy_gain_high AS high_pct
FROM improvements AS i
INNER JOIN traces AS t USING (trace_id)
WHERE t.name = $trace AND i.status = 'together' AND i.busy_gain_low > 0
ORDER BY i.number
LIMIT 1;
