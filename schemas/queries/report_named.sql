-- The traces that a name means: the trace of that name, else those of the run of that name.
SELECT name AS trace, kind FROM traces WHERE name = $name
UNION ALL
SELECT name AS trace, kind FROM traces WHERE run = $name AND $name NOT IN (SELECT name FROM traces)
ORDER BY trace;
