CREATE OR REPLACE VIEW phases AS
FROM _phases('kernel_rollups');
