-- How much of each piece of communication is waiting for another rank: until `joined_ns`, where the traces of all ranks are there (`is_split`).
-- Waiting comes first: the transfer begins when the last rank, `late_rank`, has come. `places` names the devices with their traces.
CREATE OR REPLACE MACRO _wall_exchanges(sent, places) AS TABLE
-- On all ranks of the job, whichever are asked about; one rank alone does not show who waited.
WITH _jobs AS (
    SELECT job
    FROM traces
    WHERE job IN (SELECT b.job FROM traces AS b WHERE b.trace_id IN (SELECT trace_id FROM query_table(places)))
    GROUP BY job
    HAVING count(*) > 1
),

_exchanges AS (
    SELECT *
    FROM _kernels
    WHERE
        category = 'COMMUNICATION'
        AND kind = 'kernel'
        AND trace_id IN (SELECT trace_id FROM traces WHERE job IN (FROM _jobs))
)

SELECT
    s.place,
    s.launch_index,
    s.start_ns,
    s.end_ns,
    CASE WHEN r.wait_ns IS NULL THEN s.start_ns ELSE greatest(s.start_ns, least(s.end_ns, r.start_ns + r.wait_ns)) END AS joined_ns,
    r.wait_ns IS NOT NULL AS is_split,
    r.late_rank
FROM query_table(sent) AS s
INNER JOIN query_table(places) AS p USING (place)
LEFT JOIN collective_instances('_exchanges') AS r ON p.trace_id = r.trace_id AND s.launch_index = r.launch_index;
