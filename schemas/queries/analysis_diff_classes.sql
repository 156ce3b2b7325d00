FROM diff_classes($before, $after, rule_name := $rule);
