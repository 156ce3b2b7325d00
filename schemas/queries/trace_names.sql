-- The names of all traces.
SELECT name FROM traces ORDER BY name;
