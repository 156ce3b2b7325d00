CREATE OR REPLACE VIEW closure AS
WITH closure_launched AS MATERIALIZED (
    FROM closure_launches('_kernels')
)

FROM _closure('closure_launched', 'closure_launched');
