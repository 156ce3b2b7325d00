-- The devices in rows of `_wall_launches`, by their `place`.
CREATE OR REPLACE MACRO _wall_places(used) AS TABLE
SELECT t.name AS trace, t.trace_id, CASE WHEN p.place & 8589934591 < 4294967296 THEN (p.place & 8589934591) - 2147483648 END::INTEGER AS device, p.place
FROM (SELECT DISTINCT place FROM query_table(used)) AS p
INNER JOIN _trace_numbers AS t ON p.place >> 33 = t.number;
