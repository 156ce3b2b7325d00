-- Which kernels of several sides are the same: those of one signature; of what is left those of one match_name; then those of one operator and kind,
-- so that traces of different vendors meet too. A kernel matches where every side has it.
--
-- `kernels` names a relation with side, signature_id (once a side), match_name, op and kind; NULL: nothing to match by. `sides` is how many sides
-- there are. The rows come with two more columns: matched_by (signature, name, op, or `only` and the side), and row_key, equal for what matches.
CREATE OR REPLACE MACRO _matched(kernels, sides := 2) AS TABLE
WITH by_signature AS (
    SELECT *, signature_id IS NOT NULL AND count(*) OVER (PARTITION BY signature_id) = sides AS same_signature
    FROM query_table(kernels)
),

by_name AS (
    SELECT
        *,
        NOT same_signature AND match_name IS NOT NULL
        AND count(DISTINCT side) OVER (PARTITION BY same_signature, match_name) = sides AS same_name
    FROM by_signature
),

by_op AS (
    SELECT
        *,
        CASE
            WHEN same_signature THEN 'signature'
            WHEN same_name THEN 'name'
            WHEN op IS NOT NULL AND count(DISTINCT side) OVER (PARTITION BY same_signature OR same_name, op, kind) = sides THEN 'op'
            ELSE 'only ' || side
        END AS matched_by
    FROM by_name
)

SELECT
    * EXCLUDE (same_signature, same_name),
    matched_by || ':' || CASE matched_by WHEN 'op' THEN op || ' ' || kind WHEN 'name' THEN match_name ELSE signature_id END AS row_key
FROM by_op;
