-- The launches of `selection`, each with a number that stays the same as long as the trace is there: place of the trace and index.
SELECT t.place * 1099511627776 + s.launch_index AS key, s.*
FROM selection AS s
INNER JOIN (SELECT trace_id, row_number() OVER (ORDER BY trace_id) AS place FROM traces) AS t USING (trace_id);
