-- No rows, with the columns of `kernels` that are summed.
CREATE OR REPLACE VIEW _no_launches AS
SELECT
    NULL::VARCHAR AS trace, NULL::VARCHAR AS kind, NULL::VARCHAR AS name, NULL::VARCHAR AS short_name, NULL::VARCHAR AS category,
    NULL::VARCHAR AS family, NULL::VARCHAR AS library, NULL::VARCHAR AS operation, NULL::VARCHAR AS dtype, NULL::VARCHAR AS op,
    NULL::VARCHAR AS inferred_by, NULL::VARCHAR AS phase, NULL::VARCHAR AS timing, NULL::BIGINT AS duration_ns, NULL::VARCHAR AS signature_id,
    NULL::VARCHAR AS name_id
WHERE false;
