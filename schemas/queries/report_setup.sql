SELECT
    t.trace, t.kind, t.source, t.framework_version, t.label, t.run, t.rank, t.world_size, t.device_names, t.launches, t.window_ns,
    array_to_string(list_transform(map_entries(t.tags), lambda entry: entry.key || '=' || entry.value), ', ') AS notes
FROM trace_overview AS t
WHERE t.trace = $trace;
