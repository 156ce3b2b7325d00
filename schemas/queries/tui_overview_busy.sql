-- How long the devices of `selection` were busy, of how long they could have been: sums over traces and devices.
SELECT count(*) AS devices, sum(busy_ns)::BIGINT AS busy_ns, sum(span_ns)::BIGINT AS span_ns
FROM gpu_time('selection')
WHERE trace IN (SELECT name FROM traces WHERE coalesce(counted, true) OR list_contains($names, name));
