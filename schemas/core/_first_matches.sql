-- Of the launches that `matches` finds in other traces (`other_id`, `other_index`) for launches of one, the first for each: rows of launch_prints.
CREATE OR REPLACE MACRO _first_matches(matches) AS TABLE
SELECT
    trace_id,
    launch_index,
    min_by(other_id, (other_id, other_index)) AS primary_trace_id,
    min_by(other_index, (other_id, other_index)) AS primary_launch_index
FROM query_table(matches)
GROUP BY trace_id, launch_index;
