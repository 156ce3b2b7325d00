-- The workload of a recording that a trace is of, by the hash of its bundle.json: the graph and its capture are of the same one.
CREATE OR REPLACE VIEW _recording_sources AS
SELECT f.trace_id, format('recording {} of {}', f.sha256, w.value) AS source, m.value = 'cuda_graph_capture' AS is_capture
FROM trace_files AS f
INNER JOIN trace_tags AS w ON f.trace_id = w.trace_id AND w.key = 'workload'
INNER JOIN trace_tags AS m ON f.trace_id = m.trace_id AND m.key = 'mode'
WHERE f.role = 'recording';
