-- Category and element type by which kernels are summed are those of a signature: its operator knows what a name may not. What names say comes
-- first; `kerneldb db refresh` asks the operators.
ALTER TABLE signatures ADD COLUMN category VARCHAR;
ALTER TABLE signatures ADD COLUMN category_source VARCHAR;
ALTER TABLE signatures ADD COLUMN dtype VARCHAR;
ALTER TABLE signatures ADD COLUMN dtype_source VARCHAR;
UPDATE signatures SET
    category = k.category,
    category_source = CASE WHEN k.category <> 'OTHER' THEN 'name' END,
    dtype = k.dtype,
    dtype_source = CASE WHEN k.dtype IS NOT NULL THEN 'name' END
FROM kernel_names AS k
WHERE signatures.name_id = k.name_id;
