-- Where the wall time of one trace went, by cause.
SELECT device, part, cause, n, wall_ns, share_pct, needed_ns, lost_ns FROM wall_time_budget('selection') ORDER BY wall_ns DESC, device, part, cause;
