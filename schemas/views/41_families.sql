CREATE OR REPLACE VIEW families AS
FROM _families('kernel_rollups');
