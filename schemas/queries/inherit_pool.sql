-- The traces with recorded calls of kernels that the trace $trace_id launched without one, and which kernels these are: by launch key,
-- and by name where no launch shape is known. Copies are known by kind and bytes. `kinship` is the share of the kernels that are there.
WITH wanted AS (
    SELECT DISTINCT coalesce(s.launch_key, n.match_name, concat_ws(' ', s.kind, s.bytes, s.copy_kind)) AS known_by
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.trace_id = $trace_id AND s.level <> 'call'
),

recorded AS (
    SELECT
        r.trace_id,
        r.n,
        unnest([s.launch_key, n.match_name, concat_ws(' ', s.kind, s.bytes, s.copy_kind)]) AS known_by
    FROM rollups AS r
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE r.origin = 'launches' AND s.level = 'call'
)

SELECT
    recorded.trace_id AS donor_trace_id,
    any_value(t.name) AS donor_trace,
    list(DISTINCT known_by ORDER BY known_by) AS known,
    len(known) / (SELECT count(*) FROM wanted) AS kinship,
    sum(recorded.n)::BIGINT AS n
FROM recorded
SEMI JOIN wanted USING (known_by)
INNER JOIN traces AS t ON recorded.trace_id = t.trace_id
GROUP BY recorded.trace_id
ORDER BY len(known) DESC, n DESC, recorded.trace_id;
