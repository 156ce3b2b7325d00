-- What the file itself is: which migrations ran, which views and macros it holds, and what everything means.
CREATE TABLE schema_version (
    version INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    applied_at TIMESTAMP
);

CREATE TABLE schema_info (
    key VARCHAR NOT NULL,
    value VARCHAR
);

CREATE TABLE schema_docs (
    object VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    column_name VARCHAR,
    type VARCHAR,
    unit VARCHAR,
    meaning VARCHAR NOT NULL
);

-- One row. In a lake, every commit changes it first, so that two commits at the same time cannot both go through.
CREATE TABLE commit_lock (
    commits BIGINT NOT NULL
);

INSERT INTO commit_lock VALUES (0);
