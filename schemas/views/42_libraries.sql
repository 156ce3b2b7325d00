CREATE OR REPLACE VIEW libraries AS
FROM _libraries('kernel_rollups');
