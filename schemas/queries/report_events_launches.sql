-- Launches with times: what ran, where, and which call on the host launched it.
SELECT
    'GPU ' || coalesce(device::VARCHAR, '?') AS place,
    CASE
        WHEN stream IS NOT NULL THEN 'stream ' || stream
        WHEN queue IS NOT NULL THEN 'queue ' || queue
        ELSE 'stream ?'
    END AS lane,
    short_name AS name,
    category,
    start_ns,
    end_ns - start_ns AS duration_ns,
    api_index,
    op_id
FROM kernels
WHERE trace = $trace AND timing = 'timeline' AND start_ns IS NOT NULL AND end_ns >= start_ns
ORDER BY place, coalesce(stream, queue), lane, start_ns, end_ns DESC, launch_index;
