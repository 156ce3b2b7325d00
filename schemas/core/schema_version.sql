-- The migrations that ran on this file; the greatest version is the version of its tables.
CREATE TABLE schema_version (
    version INTEGER NOT NULL,  -- Number of the migration.
    name VARCHAR NOT NULL,  -- What it did.
    applied_at TIMESTAMP  -- [UTC] When it ran.
);
