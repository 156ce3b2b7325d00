SELECT
    part, cause, least(sum(wall_ns), 9223372036854775807)::BIGINT AS wall_ns, any_value(span_ns) AS span_ns, (SELECT count(DISTINCT coalesce(device, -1)) FROM found_wall) AS devices
FROM found_wall
GROUP BY part, cause
ORDER BY wall_ns DESC, part, cause;
