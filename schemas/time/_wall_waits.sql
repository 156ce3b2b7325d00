-- The waits of the host (`_host_waits`) of the traces whose launches are in rows of `_wall_launches`, `used`; `places` names their devices.
CREATE OR REPLACE MACRO _wall_waits(used, places) AS TABLE
WITH _called AS (
    SELECT
        p.trace_id,
        u.api_index,
        CASE WHEN u.class > 2 THEN 'memcpy' ELSE 'kernel' END AS kind,
        CASE u.class WHEN 3 THEN 'DtoD' WHEN 4 THEN 'DtoH' WHEN 5 THEN 'HtoD' END AS copy_kind
    FROM query_table(used) AS u
    INNER JOIN query_table(places) AS p USING (place)
)

FROM _host_waits('_called');
