-- Which rank of which job a trace is.
SELECT trace_id, job, rank, world_size FROM traces WHERE list_contains($trace_ids::VARCHAR[], trace_id) ORDER BY trace_id;
