-- What the phases of a timeline need of the view kernels, with fewer joins: for where nothing has to be filtered.
SELECT
    l.trace_id,
    coalesce(l.phase, t.default_phase) AS phase,
    l.timing,
    l.start_ns,
    l.end_ns
FROM launches AS l
INNER JOIN traces AS t USING (trace_id);
