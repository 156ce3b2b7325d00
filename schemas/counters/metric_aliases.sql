-- Names of counters in tools and versions, and the canonical one.
CREATE TABLE metric_aliases (
    metric VARCHAR NOT NULL,  -- Canonical name.
    alias VARCHAR NOT NULL,  -- Name that a tool prints.
    tool VARCHAR,  -- Tool and version.
    unit VARCHAR,  -- Base unit.
    meaning VARCHAR,  -- What it counts.
    source VARCHAR  -- Where the equivalence comes from.
);
