-- When a commit, given by its first digits, came into the history; else the time that the text says.
SELECT
    coalesce(
        (SELECT min(happened_at) FROM history_runs WHERE length($text) >= 7 AND starts_with(commit, lower($text))),
        try_cast($text AS TIMESTAMP)
    ) AS since;
