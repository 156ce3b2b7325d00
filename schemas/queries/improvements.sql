-- What rewrites gain in the steps of traces: all accepted ones together first, then by gain.
SELECT
    t.name AS trace,
    i.rewrite,
    i.status,
    i.what,
    i.places,
    i.alone_before_ns / nullif(i.alone_after_ns, 0) AS alone_speedup,
    100 * i.busy_gain AS busy_gain_pct,
    100 * i.busy_gain_low AS busy_low_pct,
    100 * i.busy_gain_high AS busy_high_pct,
    100 * i.wall_gain AS wall_gain_pct,
    100 * i.energy_gain AS energy_gain_pct,
    i.error_ratio,
    i.place,
    i.reason
FROM improvements AS i
INNER JOIN traces AS t USING (trace_id)
WHERE $names::VARCHAR[] IS NULL OR list_contains($names::VARCHAR[], t.name)
ORDER BY
    t.name,
    CASE i.status WHEN 'together' THEN 0 WHEN 'accepted' THEN 1 WHEN 'rejected' THEN 2 ELSE 3 END,
    coalesce(i.busy_gain, i.wall_gain) DESC NULLS LAST,
    i.number;
