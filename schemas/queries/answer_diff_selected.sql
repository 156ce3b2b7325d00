FROM diff($before, $after, source := 'selection', threshold := $threshold);
