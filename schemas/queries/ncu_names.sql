-- The kernel names of the selection.
SELECT DISTINCT name_id, name
FROM selection
WHERE timing = 'timeline' AND kind = 'kernel';
