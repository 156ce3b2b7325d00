SELECT kernel, matched_by, n_before, n_after, verdict_before, verdict_after, change, mean_before_ns, mean_after_ns
FROM diff_classes($before, $after, rule_name := $rule)
WHERE change <> 'same';
