-- name: stale_names
SELECT name_id, name, kind FROM kernel_names WHERE $everything OR deriver_version IS NULL OR deriver_version < $version;

-- name: stale_signatures
SELECT * FROM signatures WHERE $everything OR deriver_version IS NULL OR deriver_version < $version;

-- name: names_of
SELECT * FROM kernel_names WHERE name_id IN (SELECT name_id FROM signatures);

-- name: delete_names
DELETE FROM kernel_names WHERE name_id IN (SELECT name_id FROM derived);

-- name: insert_names
INSERT INTO kernel_names BY NAME SELECT * FROM derived;

-- name: delete_signatures
DELETE FROM signatures WHERE signature_id IN (SELECT signature_id FROM derived);

-- name: insert_signatures
INSERT INTO signatures BY NAME SELECT * FROM derived;

-- name: unbinned
-- Traces of which it is not known when their launches ran; $everything: also those with bins, where categories of names are anew.
SELECT trace_id
FROM traces
WHERE launches > 0 AND (($everything AND bin_ns IS NOT NULL) OR (kind = 'timeline' AND launches_start_ns IS NULL))
ORDER BY trace_id;
