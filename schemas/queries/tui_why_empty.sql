-- What the traces $names (NULL: all) hold: enough to say why a screen has nothing to show.
SELECT
    count(*) AS traces,
    count(*) FILTER (kind = 'profiled') AS profiled,
    count(*) FILTER (kind = 'summary') AS summaries,
    count(*) FILTER (kind = 'timeline') AS timelines,
    coalesce(sum(launches), 0)::BIGINT AS launches
FROM traces
WHERE $names IS NULL OR list_contains($names, name);
