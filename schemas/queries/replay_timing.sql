-- Whether the selection has launches of a running program; else those under a kernel profiler are replayed.
SELECT CASE WHEN bool_or(timing = 'timeline') THEN 'timeline' ELSE 'profiled' END AS timing
FROM selection;
