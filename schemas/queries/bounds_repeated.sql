-- Traces of Nsight Compute that repeat another print of the same report in their run, and so do not count.
SELECT name AS trace, run
FROM traces
WHERE kind = 'profiled' AND NOT coalesce(counted, true)
ORDER BY name;
