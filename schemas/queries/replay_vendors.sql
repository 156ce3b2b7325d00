-- Who made the GPUs of the selected launches.
SELECT DISTINCT d.vendor
FROM devices AS d
SEMI JOIN selection AS k ON d.trace_id = k.trace_id AND d.device = k.device
WHERE d.vendor IS NOT NULL
ORDER BY d.vendor;
