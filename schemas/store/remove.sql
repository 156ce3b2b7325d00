-- name: ids
SELECT name, trace_id FROM traces ORDER BY name;

-- name: rows
-- Everything of one trace but its tags: they are the user's, and stay when the trace is read again.
DELETE FROM inferred_calls WHERE trace_id = $trace_id;
DELETE FROM measurements WHERE trace_id = $trace_id;
DELETE FROM power_samples WHERE trace_id = $trace_id;
DELETE FROM kernel_symbols WHERE trace_id = $trace_id;
DELETE FROM kernel_sources WHERE trace_id = $trace_id;
DELETE FROM source_counters WHERE trace_id = $trace_id;
DELETE FROM metrics WHERE trace_id = $trace_id;
DELETE FROM samples WHERE trace_id = $trace_id;
DELETE FROM cpu_samples WHERE trace_id = $trace_id;
DELETE FROM sync_events WHERE trace_id = $trace_id;
DELETE FROM call_sums WHERE trace_id = $trace_id;
DELETE FROM memory_events WHERE trace_id = $trace_id;
DELETE FROM ranges WHERE trace_id = $trace_id;
DELETE FROM api_calls WHERE trace_id = $trace_id;
DELETE FROM improvements WHERE trace_id = $trace_id;
DELETE FROM op_tensors WHERE trace_id = $trace_id;
DELETE FROM ops WHERE trace_id = $trace_id;
DELETE FROM timeline_bins WHERE trace_id = $trace_id;
DELETE FROM rollups WHERE trace_id = $trace_id;
DELETE FROM launches WHERE trace_id = $trace_id;
DELETE FROM trace_evidence WHERE trace_id = $trace_id;
DELETE FROM trace_links WHERE trace_id = $trace_id OR other_id = $trace_id;
DELETE FROM launch_prints WHERE trace_id = $trace_id OR primary_trace_id = $trace_id;
DELETE FROM process_groups WHERE trace_id = $trace_id;
DELETE FROM devices WHERE trace_id = $trace_id;
DELETE FROM ingest_reports WHERE trace_id = $trace_id;
DELETE FROM history_changes WHERE trace_id = $trace_id OR before_trace_id = $trace_id;
DELETE FROM history_rollups WHERE trace_id = $trace_id;
DELETE FROM history_runs WHERE trace_id = $trace_id;
DELETE FROM trace_files WHERE trace_id = $trace_id;
DELETE FROM traces WHERE trace_id = $trace_id;

-- name: tags
DELETE FROM trace_tags WHERE trace_id = $trace_id;

-- name: orphans
-- Every launch and every line of a report is in some rollup, so what no rollup names is used by no trace. Annotations stay.
DELETE FROM signatures
WHERE
    signature_id NOT IN (SELECT signature_id FROM rollups)
    AND signature_id NOT IN (SELECT inferred_id FROM rollups WHERE inferred_id IS NOT NULL);
DELETE FROM kernel_names
WHERE
    name_id NOT IN (SELECT name_id FROM signatures)
    AND name_id NOT IN (SELECT name_id FROM kernel_symbols);
DELETE FROM op_calls
WHERE
    call_id NOT IN (SELECT call_id FROM signatures WHERE call_id IS NOT NULL)
    AND call_id NOT IN (SELECT call_id FROM ops WHERE call_id IS NOT NULL);
