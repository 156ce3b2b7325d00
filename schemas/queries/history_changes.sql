-- The newest changes first, those of a commit range by what they add.
SELECT *
FROM kernel_history
WHERE
    ($workload IS NULL OR workload = $workload)
    AND ($branch IS NULL OR branch = $branch)
    AND ($subject IS NULL OR subject = $subject)
    AND ($since IS NULL OR happened_at >= $since)
ORDER BY happened_at DESC, subject = 'kernel' DESC, abs(coalesce(impact_ns, 0)) DESC, abs(change_pct) DESC, workload, subject, name;
