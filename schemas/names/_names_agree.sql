-- The rows of `pairs`, and whether the base names `base` and `other_base` of each are of one kernel: the same, or one is the other's mangled form.
CREATE OR REPLACE MACRO _names_agree(pairs) AS TABLE
SELECT
    *,
    base = other_base
    OR (starts_with(base, '_Z') AND contains(base, length(other_base) || other_base))
    OR (starts_with(other_base, '_Z') AND contains(other_base, length(base) || base)) AS names_agree
FROM query_table(pairs);
