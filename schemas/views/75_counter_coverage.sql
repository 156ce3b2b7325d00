CREATE OR REPLACE VIEW counter_coverage AS
SELECT * FROM counter_coverage('kernels')
UNION ALL
SELECT * FROM counter_coverage('kernel_rollups');
