SELECT
    collective,
    collective_in_elements AS in_elements,
    collective_out_elements AS out_elements,
    group_name,
    group_description,
    group_ranks AS ranks
FROM kernels
WHERE trace = $trace AND category = 'COMMUNICATION'
ORDER BY duration_ns DESC
LIMIT 1;
