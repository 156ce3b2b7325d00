-- Traces of Nsight Compute that are another print of a report: their launches are in another trace, their metrics count there.
SELECT name AS trace, run
FROM traces
WHERE kind = 'profiled' AND repeats IS NOT NULL
ORDER BY name;
