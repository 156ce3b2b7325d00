-- The GPUs of a trace with their peaks.
SELECT
    p.device,
    coalesce(p.gpu, p.device_name) AS name,
    (SELECT min(d.vendor) FROM devices AS d WHERE d.trace_id = p.trace_id AND d.device = p.device) AS vendor,
    p.arch,
    p.multiprocessors,
    p.bandwidth_gbs,
    p.peaks
FROM device_peaks AS p
WHERE p.trace_id = $trace_id
ORDER BY p.device;
