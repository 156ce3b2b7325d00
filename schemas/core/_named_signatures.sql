-- Signatures as `_signature_calls` has them, with their kernel name, and with the fact of gpu_specs that is the peak for its type.
CREATE OR REPLACE VIEW _named_signatures AS
SELECT
    s.*,
    k.name, k.short_name, k.demangled, k.match_name, k.family, k.library, k.operation,
    p.fact AS peak_fact
FROM _signature_calls AS s
LEFT JOIN kernel_names AS k USING (name_id)
-- A product of fp32 inputs may run as TF32: without a type in the name its peak is not known.
LEFT JOIN peak_types AS p ON s.dtype = p.dtype AND NOT (s.dtype_source IS NOT DISTINCT FROM 'inputs' AND s.dtype = 'fp32');
