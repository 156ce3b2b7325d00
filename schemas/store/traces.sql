-- name: all
FROM trace_overview;

-- name: unset_tag
DELETE FROM trace_tags WHERE trace_id = $trace_id AND key = $key;

-- name: set_tag
INSERT INTO trace_tags VALUES ($trace_id, $key, $value);

-- name: state_run
UPDATE traces SET stated_run = $run WHERE trace_id = $trace_id;

-- name: rename
UPDATE traces SET name = $name WHERE trace_id = $trace_id;

-- name: name_of
SELECT name FROM traces WHERE trace_id = $trace_id;
