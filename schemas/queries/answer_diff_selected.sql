WITH summed AS (FROM launch_rollups('selection'))

FROM diff_between('summed', 'selection', $before, $after, threshold := $threshold);
