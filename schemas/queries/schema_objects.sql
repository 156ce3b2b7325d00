-- Tables, views and macros that users ask, with their meaning, by subject.
SELECT object, kind, subject, meaning
FROM schema_docs
WHERE column_name IS NULL AND NOT starts_with(kind, 'internal')
ORDER BY
    list_position(['core', 'time', 'work', 'names', 'collectives', 'compare', 'counters', 'energy', 'replay', 'lake'], subject),
    kind = 'table',
    object;
