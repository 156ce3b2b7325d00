-- By time, not by thread: a backward pass launches from a thread of its own.
SELECT count(*) AS n
FROM kernels AS k
INNER JOIN ranges AS r
    ON k.trace_id = r.trace_id AND k.launch_start_ns >= r.start_ns AND k.launch_start_ns < r.start_ns + r.duration_ns
WHERE k.trace = $trace AND r.kind = 'user_annotation' AND r.name IN ('ProfilerStep#101', 'ProfilerStep#102', 'ProfilerStep#103', 'ProfilerStep#104');
