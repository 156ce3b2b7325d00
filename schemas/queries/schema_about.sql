-- What the object $object is, and a statement that asks it.
SELECT kind, meaning, example
FROM schema_docs
WHERE object = $object AND column_name IS NULL;
