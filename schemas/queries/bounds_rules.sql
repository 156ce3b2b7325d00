-- The rules there are, with their thresholds.
SELECT rule, version, parameter, value, unit, meaning, source
FROM bound_rules
ORDER BY rule, version, parameter;
