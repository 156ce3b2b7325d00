FROM diff($before, $after, threshold := $threshold);
