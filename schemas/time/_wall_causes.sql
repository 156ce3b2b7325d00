-- What the numbers of `_wall_cuts` mean: the part of the wall time, and what of it.
CREATE OR REPLACE MACRO _wall_causes() AS TABLE
SELECT code::TINYINT AS code, part, cause
FROM (
    VALUES
    (1, 'computation', 'computation'), (2, 'copy', 'copy'),
    (3, 'communication', 'waiting for a rank'), (4, 'communication', 'transfer'), (5, 'communication', 'unsplit'),
    (6, 'host', 'launching'), (7, 'queue', 'dependency'), (8, 'queue', 'launch latency'), (9, 'queue', 'between launches'),
    (10, 'unattributed', 'unattributed')
) AS causes(code, part, cause);
