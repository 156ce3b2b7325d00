-- Facts about the file itself.
CREATE TABLE schema_info (
    key VARCHAR NOT NULL,  -- Name of the fact; objects_hash, for one, is the hash of the definitions of the views and macros.
    value VARCHAR  -- Its value.
);
