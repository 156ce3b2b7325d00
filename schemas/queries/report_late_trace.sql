-- The trace of the rank $late_rank in the job of a trace, where it is short: another one's wall time is found anew for it.
SELECT o.name AS trace
FROM traces AS t
INNER JOIN traces AS o ON t.job = o.job AND t.name <> o.name
WHERE t.name = $trace AND o.rank = $late_rank AND o.launches <= 20000
ORDER BY o.name
LIMIT 1;
