-- The traces of the selected launches without a recorded call, with how many there are.
SELECT
    k.trace_id,
    any_value(k.trace) AS trace,
    count(*) AS n
FROM selection AS k
WHERE k.level <> 'call'
GROUP BY k.trace_id
ORDER BY n DESC, k.trace_id;
