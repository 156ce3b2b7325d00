-- The devices of the timelines of a relation with the columns of `kernels`, numbered as `place`, so that nothing is sorted or joined by names.
CREATE OR REPLACE MACRO _wall_places(source) AS TABLE
SELECT trace, trace_id, device, row_number() OVER (ORDER BY trace, device) AS place
FROM (SELECT DISTINCT trace, trace_id, device FROM query_table(source) WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL);
