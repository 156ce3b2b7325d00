CREATE OR REPLACE VIEW closure_kernels AS
SELECT * FROM closure_kernels_of('_kernels');
