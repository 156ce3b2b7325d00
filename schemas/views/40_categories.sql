CREATE OR REPLACE VIEW categories AS
FROM _categories('kernel_rollups');
