-- Which other signatures are the same kernel elsewhere in the database, each pair by its best method.
--
-- By name only on one architecture, as far as both are known. Pairs known only from one and the same trace are left out: there they are different
-- kernels. This is not how `diff` matches, where each kernel of two sides is in exactly one row: here a signature has all others that may replace
-- it, those of its name also where others have its id.
--
-- Columns:
--   signature_id: as in launches
--   other_id VARCHAR: A signature that is the same kernel in another trace.
--   method VARCHAR: signature (equal id, in several traces), launch_key (equal match_name, blocks and threads), match_name.
--   candidates BIGINT: Number of others that this method finds for the signature; 1 is unambiguous.
-- Example:
--   SELECT method, candidates, count(*) AS pairs FROM signature_matches GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW signature_matches AS
WITH places AS (
    SELECT
        r.signature_id,
        count(DISTINCT r.trace_id) AS traces,
        min(r.trace_id) AS first_trace,
        CASE WHEN min(d.arch) = max(d.arch) THEN min(d.arch) END AS arch
    FROM rollups AS r
    LEFT JOIN (
        SELECT trace_id, device, CASE WHEN min(arch) = max(arch) THEN min(arch) END AS arch
        FROM devices
        GROUP BY trace_id, device
    ) AS d ON r.trace_id = d.trace_id AND r.device = d.device
    GROUP BY r.signature_id
),

placed AS (
    SELECT p.*, s.launch_key, n.match_name
    FROM places AS p
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE s.kind = 'kernel'
),

pairs AS (
    SELECT
        a.signature_id,
        b.signature_id AS other_id,
        CASE WHEN a.launch_key = b.launch_key THEN 'launch_key' ELSE 'match_name' END AS method
    FROM placed AS a
    INNER JOIN placed AS b ON a.match_name = b.match_name
    WHERE
        a.signature_id <> b.signature_id
        AND (a.arch = b.arch OR a.arch IS NULL OR b.arch IS NULL)
        AND (a.first_trace <> b.first_trace OR a.traces > 1 OR b.traces > 1)
    UNION ALL
    SELECT signature_id, signature_id, 'signature'
    FROM places
    WHERE traces > 1
)

SELECT
    signature_id,
    other_id,
    method,
    count(*) OVER (PARTITION BY signature_id, method) AS candidates
FROM pairs;
