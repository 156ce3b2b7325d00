CREATE OR REPLACE VIEW closure AS
SELECT * FROM closure_of('kernels');
