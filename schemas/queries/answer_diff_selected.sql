WITH timed AS (FROM selection WHERE timing = 'timeline'),

summed AS (SELECT *, 'timeline' AS timing, 'launches' AS origin FROM launch_rollups('timed'))

FROM diff_between('summed', 'selection', $before, $after, threshold := $threshold);
