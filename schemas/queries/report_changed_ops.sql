-- What changed by operator, the largest change first.
FROM diff_by($before, $after, 'op', threshold := $threshold)
WHERE delta_ns <> 0
LIMIT 40;
