-- Whether any launch is selected.
SELECT 1 AS selected FROM selection LIMIT 1;
