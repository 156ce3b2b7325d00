-- The operation that each profiled launch did most of, against DRAM; of equal ones that with the lower peak (dense, not sparse).
CREATE OR REPLACE VIEW _main_operations AS
SELECT trace, trace_id, launch_index, precision, operation, intensity, ridge
FROM ncu_roofline
WHERE level = 'dram' AND intensity IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY trace, trace_id, launch_index
    ORDER BY flops_per_second DESC, peak_flops_per_second NULLS LAST, operation
) = 1;
