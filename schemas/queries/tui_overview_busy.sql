-- How long the devices of `selection` were busy, of how long they could have been: sums over traces and devices. Where clocks are damaged,
-- a few devices' spans exceed what a BIGINT holds.
SELECT count(*) AS devices, sum(busy_ns) AS busy_ns, sum(span_ns) AS span_ns
FROM gpu_time('selection');
