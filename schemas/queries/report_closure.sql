SELECT
    stage,
    mode,
    section,
    term,
    "value" / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS "value",
    low / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS low,
    high / CASE unit WHEN 'ns' THEN 1e6 ELSE 1 END AS high,
    CASE unit WHEN 'ns' THEN 'ms' ELSE unit END AS unit,
    source,
    note
FROM closure_terms
WHERE trace = $trace AND "value" IS NOT NULL;
