CREATE OR REPLACE VIEW counter_coverage AS
SELECT * FROM counter_coverage('kernels');
