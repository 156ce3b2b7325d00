-- The ids of all traces, in the order of their places in tui_launch_keys.
SELECT trace_id FROM traces ORDER BY trace_id;
