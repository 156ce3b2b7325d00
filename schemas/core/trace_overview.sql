-- What each trace is: profiler, run, rank, GPUs, launches, length, tags.
--
-- Columns:
--   trace: as in kernels
--   run, label, kind, source, framework_version, rank, world_size: as in traces
--   device_names VARCHAR: Product names of its devices.
--   launches, is_primary: as in traces
--   window_ns BIGINT [ns]: From the first to the last launch, call or operator; of PyTorch, Python frames and annotations may begin earlier or end later.
--   tags: as in kernels
--   default_phase, ingested_at: as in traces
--   trace_id: as in kernels
-- Example:
--   SELECT trace, source, device_names, launches, window_ns FROM trace_overview;
CREATE OR REPLACE VIEW trace_overview AS
SELECT
    t.name AS trace,
    t.run,
    t.label,
    t.kind,
    t.source,
    t.framework_version,
    t.rank,
    t.world_size,
    d.device_names,
    t.launches,
    coalesce(t.is_primary, true) AS is_primary,
    t.window_end_ns - t.window_start_ns AS window_ns,
    noted.tags,
    t.default_phase,
    t.ingested_at,
    t.trace_id
FROM traces AS t
LEFT JOIN (
    SELECT trace_id, string_agg(DISTINCT name, ', ' ORDER BY name) AS device_names FROM devices GROUP BY trace_id
) AS d USING (trace_id)
LEFT JOIN (
    SELECT trace_id, map_from_entries(list((key, value) ORDER BY key)) AS tags FROM trace_tags GROUP BY trace_id
) AS noted USING (trace_id)
ORDER BY t.ingested_at, t.name;
