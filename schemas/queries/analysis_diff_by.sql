FROM diff_by($before, $after, key := $by, source := 'selection', threshold := $threshold);
