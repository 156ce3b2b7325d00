-- What the object $object is, its arguments, and a statement that asks it.
SELECT kind, meaning, notes, example
FROM schema_docs
WHERE object = $object AND column_name IS NULL;
