-- What is noted about the signatures of the selected launches.
SELECT
    n.short_name,
    s.grid_x || 'x' || s.grid_y || 'x' || s.grid_z AS grid,
    a.key,
    a.value,
    a.number,
    a.author,
    a.noted_at,
    a.signature_id
FROM annotations AS a
LEFT JOIN signatures AS s USING (signature_id)
LEFT JOIN kernel_names AS n USING (name_id)
WHERE a.signature_id IN (SELECT signature_id FROM selection)
ORDER BY n.short_name, a.signature_id, a.key, a.noted_at, a.author, a.value, a.number;
