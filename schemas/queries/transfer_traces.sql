SELECT name, trace_id FROM traces ORDER BY ingested_at, name;
