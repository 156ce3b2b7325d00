-- Kernel names, in any spelling, of which counters of some launch are stored.
CREATE OR REPLACE VIEW _counted_names AS
SELECT name_id
FROM kernel_names
WHERE match_name IN (
    SELECT n.match_name
    FROM launches AS l
    SEMI JOIN metrics AS m ON l.trace_id = m.trace_id AND l.launch_index = m.launch_index
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
);
