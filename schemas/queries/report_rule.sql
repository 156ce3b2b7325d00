SELECT version, parameter, value, unit FROM bound_rules WHERE rule = $rule ORDER BY parameter, version;
