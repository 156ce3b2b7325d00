CREATE OR REPLACE VIEW window_power AS
SELECT * FROM power_integral('power_windows');
