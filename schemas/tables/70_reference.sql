-- Reference tables: filled anew from ../reference/<table>.csv whenever views and macros are made anew.
CREATE TABLE gpu_specs (
    name VARCHAR NOT NULL,
    vendor VARCHAR NOT NULL,
    arch VARCHAR NOT NULL,
    fact VARCHAR NOT NULL,
    value DOUBLE,
    unit VARCHAR,
    source VARCHAR
);

-- Which row of gpu_specs a printed device name means. Names without vendor words, case and punctuation (kerneldb.gpus).
CREATE TABLE gpu_names (
    printed VARCHAR NOT NULL,
    name VARCHAR NOT NULL
);

CREATE TABLE tensile_tokens (
    token VARCHAR NOT NULL,
    parameter VARCHAR,
    kind VARCHAR,
    meaning VARCHAR NOT NULL,
    source VARCHAR
);

CREATE TABLE bound_rules (
    rule VARCHAR NOT NULL,
    version INTEGER NOT NULL,
    parameter VARCHAR NOT NULL,
    value DOUBLE,
    unit VARCHAR,
    meaning VARCHAR,
    source VARCHAR
);

CREATE TABLE metric_aliases (
    metric VARCHAR NOT NULL,
    alias VARCHAR NOT NULL,
    tool VARCHAR,
    unit VARCHAR,
    meaning VARCHAR,
    source VARCHAR
);
