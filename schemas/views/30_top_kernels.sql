CREATE OR REPLACE VIEW top_kernels AS
FROM _top_kernels('kernel_rollups');
