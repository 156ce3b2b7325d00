-- FROM variants('signature id'): the symbols of the code object that holds the kernel of a signature, and the tokens in which their names
-- differ from it ("EPS 1 > 0": 1 in the signature's kernel, 0 in the other). Nearest first; the kernel itself has no differences.
CREATE OR REPLACE MACRO variants(signature) AS TABLE
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
