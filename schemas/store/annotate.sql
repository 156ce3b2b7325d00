-- name: chosen
SELECT DISTINCT signature_id FROM selection ORDER BY signature_id;

-- name: forget
DELETE FROM annotations
WHERE list_contains($ids::VARCHAR[], signature_id) AND key = $key AND author IS NOT DISTINCT FROM coalesce($author, author);

-- name: note
INSERT INTO annotations BY NAME
SELECT
    unnest($ids::VARCHAR[]) AS signature_id,
    $key AS key,
    $value AS value,
    $author AS author,
    now()::TIMESTAMP AS noted_at,
    $number::DOUBLE AS number;
