CREATE OR REPLACE VIEW operations AS
FROM _operations('kernel_rollups');
