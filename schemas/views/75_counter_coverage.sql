CREATE OR REPLACE VIEW counter_coverage AS
FROM _counter_coverage('kernel_rollups');
