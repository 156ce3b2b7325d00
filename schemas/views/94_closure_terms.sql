CREATE OR REPLACE VIEW closure_terms AS
SELECT * FROM closure_terms_of('_kernels');
