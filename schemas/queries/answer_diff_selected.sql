WITH timed AS (FROM selection WHERE timing = 'timeline'),

summed AS (FROM launch_rollups('timed'))

FROM diff_between('summed', 'selection', $before, $after, threshold := $threshold);
