SELECT
    workload,
    mode,
    section,
    component,
    "value" / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS "value",
    low / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS low,
    high / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS high,
    CASE unit WHEN 'ns' THEN 'ms' ELSE unit END AS unit,
    source,
    note
FROM reconciliation_components
WHERE trace = $trace AND "value" IS NOT NULL;
