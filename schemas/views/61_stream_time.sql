CREATE OR REPLACE VIEW stream_time AS
SELECT * FROM stream_time('kernels');
