-- A number for each trace, in the order of their names.
CREATE OR REPLACE VIEW _trace_numbers AS
SELECT trace_id, name, row_number() OVER (ORDER BY name) AS number FROM traces;
