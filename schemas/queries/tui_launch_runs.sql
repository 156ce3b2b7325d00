-- The launches of each trace as a run of keys of tui_launch_keys: the first key, how many, and whether `kernels` has all of them and none between is missing.
SELECT
    t.place * 1099511627776 + min(l.launch_index) AS first_key,
    count(*) AS n,
    max(l.launch_index) - min(l.launch_index) + 1 = count(*)
    AND bool_and(l.is_repeat IS NOT TRUE AND l.timing = coalesce(t.primary_timing, l.timing)) AS dense
FROM launches AS l
INNER JOIN (SELECT trace_id, name, primary_timing, row_number() OVER (ORDER BY trace_id) AS place FROM traces) AS t USING (trace_id)
WHERE $traces::VARCHAR[] IS NULL OR list_contains($traces::VARCHAR[], t.name)
GROUP BY t.place
ORDER BY t.place;
