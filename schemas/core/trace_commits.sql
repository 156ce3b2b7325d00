-- Which commit of a program each trace was recorded from, as `kerneldb ingest --commit` noted it.
--
-- Columns:
--   trace: as in kernels
--   commit VARCHAR: The commit, in hexadecimal digits; whole where git knew it; NULL where the trace has none.
--   branch VARCHAR: Its branch.
--   commit_time TIMESTAMP [UTC]: When it was committed; NULL where git did not know it.
--   ci_run VARCHAR: The job of a CI service that recorded the trace (`--ci`).
--   run, label: as in traces
--   tags: as in kernels
--   trace_id: as in kernels
-- Example:
--   SELECT trace, commit, branch, commit_time FROM trace_commits ORDER BY commit_time;
CREATE OR REPLACE VIEW trace_commits AS
SELECT
    t.name AS trace,
    noted.tags['commit'] AS commit,
    noted.tags['branch'] AS branch,
    try_cast(noted.tags['commit_time'] AS TIMESTAMP) AS commit_time,
    noted.tags['ci_run'] AS ci_run,
    t.run,
    t.label,
    noted.tags,
    t.trace_id
FROM traces AS t
LEFT JOIN (
    SELECT trace_id, map_from_entries(list((key, value) ORDER BY key)) AS tags FROM trace_tags GROUP BY trace_id
) AS noted USING (trace_id);
