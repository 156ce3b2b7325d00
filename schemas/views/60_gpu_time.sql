CREATE OR REPLACE VIEW gpu_time AS
SELECT * FROM gpu_time('kernels');
