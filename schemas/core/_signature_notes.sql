-- What users noted of signatures. Of several notes on one fact the latest holds; of those of one moment, that of the last author by name.
CREATE OR REPLACE VIEW _signature_notes AS
SELECT
    signature_id,
    arg_max(number, (noted_at, author, number)) FILTER (WHERE key = 'flops') AS flops,
    arg_max(number, (noted_at, author, number)) FILTER (WHERE key = 'bytes') AS moved_bytes,
    CASE WHEN count(*) FILTER (WHERE key IN ('flops', 'bytes')) > 0 THEN 'annotation' END AS work_method,
    arg_max(value, (noted_at, author, value)) FILTER (WHERE key = 'role') AS role
FROM (
    SELECT
        signature_id,
        key,
        value,
        author,
        coalesce(number, try_cast(value AS DOUBLE)) AS number,
        coalesce(noted_at, TIMESTAMP '1970-01-01') AS noted_at
    FROM annotations
)
GROUP BY signature_id;
