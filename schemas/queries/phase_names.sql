-- The phases of all launches.
SELECT DISTINCT phase
FROM rollups
WHERE phase IS NOT NULL
ORDER BY phase;
