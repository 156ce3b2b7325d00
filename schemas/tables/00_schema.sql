-- What the file itself is: which migrations ran, which views and macros it holds, and what everything means.
CREATE TABLE IF NOT EXISTS schema_version (
    version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    applied_at TIMESTAMP
);

CREATE TABLE IF NOT EXISTS schema_info (
    key VARCHAR NOT NULL,
    value VARCHAR
);

CREATE TABLE IF NOT EXISTS schema_docs (
    object VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    column_name VARCHAR,
    type VARCHAR,
    unit VARCHAR,
    meaning VARCHAR NOT NULL
);
