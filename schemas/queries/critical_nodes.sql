-- The nodes of `critical_edges`, of each job in order of time, numbered from 0: what ends at a moment comes before what begins then.
WITH jobs AS (SELECT DISTINCT trace_id, job FROM critical_runs),

found AS (
    SELECT job, 3 * run AS node, start_ns AS ts_ns, 2 AS place, false AS is_end FROM critical_runs
    UNION ALL
    SELECT job, 3 * run + 1, end_ns, CASE WHEN end_ns > start_ns THEN 0 ELSE 3 END, true FROM critical_runs
    UNION ALL
    SELECT j.job, 3 * p.point + 2, p.ts_ns, 1, false FROM critical_points AS p INNER JOIN jobs AS j USING (trace_id)
)

SELECT *, row_number() OVER (ORDER BY job, ts_ns, place, node) - 1 AS number FROM found ORDER BY number;
