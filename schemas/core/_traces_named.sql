-- The traces that a name means: the trace of that name; else those of that run; else of that job; else of that label; else those whose name, run or label
-- fits it as a pattern (`*` any text, `?` one character, `[ab]` one of these).
CREATE OR REPLACE MACRO _traces_named(pattern) AS TABLE
SELECT trace, trace_id, run, label
FROM (
    SELECT
        name AS trace,
        trace_id,
        run,
        label,
        CASE
            WHEN name = pattern THEN 1
            WHEN run = pattern THEN 2
            WHEN job = pattern THEN 3
            WHEN label = pattern THEN 4
            WHEN name GLOB pattern THEN 5
            WHEN run GLOB pattern THEN 6
            WHEN label GLOB pattern THEN 7
        END AS place
    FROM traces
)
WHERE place IS NOT NULL
QUALIFY place = min(place) OVER ()
ORDER BY trace;
