-- Which other kernels the code object of a kernel holds, and how their names differ from it: what the library could have launched.
--
-- Nearest first; the kernel itself has no differences. `EPS 1 > 0` means: 1 in the kernel of the signature, 0 in the other one.
--
-- Arguments:
--   signature: the id of the signature, such as `kernels.signature_id`.
-- Columns:
--   trace: as in kernels
--   code_object_id, symbol_id, symbol, launches: as in kernel_symbols
--   n_differences BIGINT: Tokens in which its name differs; NULL for other than Tensile names.
--   differences VARCHAR: Those tokens: value in the kernel of the signature > value in this one.
--   registers_reported, agprs_reported, sgprs_reported, static_shared_bytes, scratch_bytes, target: as in kernel_symbols
--   name_id: as in kernels
-- Example:
--   FROM same_code((SELECT any_value(signature_id) FROM kernels WHERE name_id IN (SELECT name_id FROM kernel_symbols)));
CREATE OR REPLACE MACRO same_code(signature) AS TABLE
WITH chosen AS (SELECT DISTINCT name_id FROM signatures WHERE signature_id = signature),

objects AS (
    SELECT DISTINCT k.trace_id, k.process, k.code_object_id
    FROM kernel_symbols AS k
    INNER JOIN chosen USING (name_id)
),

symbols AS (
    SELECT t.name AS trace, k.*
    FROM kernel_symbols AS k
    INNER JOIN objects AS o
        ON k.trace_id = o.trace_id AND k.process IS NOT DISTINCT FROM o.process AND k.code_object_id IS NOT DISTINCT FROM o.code_object_id
    LEFT JOIN traces AS t ON k.trace_id = t.trace_id
),

parameters AS (
    SELECT p.name_id, p.token, p.value FROM tensile_parameters AS p WHERE p.name_id IN (SELECT name_id FROM symbols)
),

compared AS (
    SELECT
        coalesce(theirs.name_id, mine.other) AS name_id,
        coalesce(theirs.token, mine.token) AS token,
        mine.value AS before,
        theirs.value AS after
    FROM (
        SELECT p.token, p.value, others.name_id AS other
        FROM parameters AS p
        INNER JOIN chosen USING (name_id)
        CROSS JOIN (SELECT DISTINCT name_id FROM parameters) AS others
    ) AS mine
    FULL JOIN parameters AS theirs ON mine.token = theirs.token AND mine.other = theirs.name_id
),

differences AS (
    SELECT
        name_id,
        count(*) FILTER (WHERE before IS DISTINCT FROM after) AS n_differences,
        string_agg(token || ' ' || coalesce(before, '-') || ' > ' || coalesce(after, '-'), ', ' ORDER BY token)
            FILTER (WHERE before IS DISTINCT FROM after) AS differences
    FROM compared
    GROUP BY name_id
)

SELECT
    s.trace,
    s.code_object_id,
    s.symbol_id,
    s.symbol,
    s.launches,
    d.n_differences,
    d.differences,
    s.registers_reported,
    s.agprs_reported,
    s.sgprs_reported,
    s.static_shared_bytes,
    s.scratch_bytes,
    s.target,
    s.name_id
FROM symbols AS s
LEFT JOIN differences AS d USING (name_id)
ORDER BY d.n_differences NULLS LAST, sum(s.launches) OVER (PARTITION BY s.name_id) DESC, s.symbol, s.trace, s.code_object_id, s.symbol_id;
