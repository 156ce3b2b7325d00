CREATE OR REPLACE VIEW signature_stats AS
FROM _signature_stats('kernel_rollups');
