-- Tokens of Tensile kernel names.
CREATE TABLE tensile_tokens (
    token VARCHAR NOT NULL,  -- Token of a Tensile kernel name: without its value (SIA), or with a value that has a meaning of its own (SIA3).
    parameter VARCHAR,  -- Parameter of the kernel that it sets.
    kind VARCHAR,  -- What the value is: number, flag, list, word, predicate, shape or types; value where the row is about one value.
    meaning VARCHAR NOT NULL,  -- What it means.
    source VARCHAR  -- Where the meaning comes from.
);
