CREATE OR REPLACE VIEW operators AS
FROM _operators('kernel_rollups');
