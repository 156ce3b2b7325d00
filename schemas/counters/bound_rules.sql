-- Rules that say whether a kernel is bound by computation or memory.
CREATE TABLE bound_rules (
    rule VARCHAR NOT NULL,  -- Name of the rule.
    version INTEGER NOT NULL,  -- Version of the rule.
    parameter VARCHAR NOT NULL,  -- Threshold.
    value DOUBLE,  -- The value, in unit.
    unit VARCHAR,  -- Unit of value.
    meaning VARCHAR,  -- What the threshold decides.
    source VARCHAR  -- Where the rule comes from.
);
