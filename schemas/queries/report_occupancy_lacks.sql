-- What the theoretical occupancy of launches needs: which GPU ran them, and how many note their registers and shared memory.
SELECT
    (SELECT any_value(d.arch) FROM devices AS d INNER JOIN traces AS t USING (trace_id) WHERE t.name = $trace) AS arch,
    count(*) FILTER (registers IS NOT NULL AND shared_bytes IS NOT NULL) AS with_resources
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND kind = 'kernel';
