SELECT count(DISTINCT side) AS sides FROM _profiled_matches($before, $after);
