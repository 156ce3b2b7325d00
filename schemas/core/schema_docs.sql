-- The meaning of every table, view, macro and column: this list.
CREATE TABLE schema_docs (
    object VARCHAR NOT NULL,  -- Name of the table, view or macro.
    kind VARCHAR NOT NULL,  -- table, view or macro; internal view or internal macro where it only serves others, and may change.
    column_name VARCHAR,  -- The column; NULL for the object itself.
    type VARCHAR,  -- DuckDB type of the column.
    unit VARCHAR,  -- Unit of its values; NULL for text, flags, counts and ids.
    meaning VARCHAR NOT NULL,  -- What it holds.
    subject VARCHAR,  -- What the object is about: core, time, work, names, collectives, compare, counters, energy, replay or lake.
    example VARCHAR,  -- A statement that asks the object, of views and macros.
    notes VARCHAR  -- What else there is to know of the object; of a macro, its arguments, with units and defaults.
);
