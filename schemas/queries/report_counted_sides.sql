SELECT count(DISTINCT side) AS sides FROM profiled_matches($before, $after);
