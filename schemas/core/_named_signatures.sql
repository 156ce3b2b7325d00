-- Signatures as `_signature_calls` has them, with their kernel name, and with the fact of gpu_specs that is the peak for its type.
CREATE OR REPLACE VIEW _named_signatures AS
SELECT
    s.*,
    k.name, k.short_name, k.demangled, k.match_name, k.category, k.family, k.library, k.operation, k.dtype,
    p.fact AS peak_fact
FROM _signature_calls AS s
LEFT JOIN kernel_names AS k USING (name_id)
LEFT JOIN peak_types AS p USING (dtype);
