-- Bounds of M and N of a matrix product, from its grid, where no operator call is known.
--
-- Each workgroup computes one tile in Tensile kernels that neither split the sum nor keep workgroups for several tiles. Column-major, as Tensile
-- counts: M along the grid's x. TensileLite launches all tiles along one axis, so its grid says nothing.
--
-- Columns:
--   signature_id, name_id, short_name: as in kernels
--   tiles_m INTEGER: Workgroups along M.
--   tiles_n INTEGER: Workgroups along N.
--   m_min BIGINT: Smallest M that needs so many tiles.
--   m_max BIGINT: Largest M that so many tiles cover.
--   n_min BIGINT: Smallest N that needs so many tiles.
--   n_max BIGINT: Largest N that so many tiles cover.
--   batch INTEGER: Workgroups along z: the batch.
--   method VARCHAR: How the bounds follow from the grid.
-- Example:
--   SELECT short_name, m_min, m_max, n_min, n_max FROM gemm_bounds;
CREATE OR REPLACE VIEW gemm_bounds AS
SELECT
    s.signature_id,
    s.name_id,
    n.short_name,
    s.grid_x AS tiles_m,
    s.grid_y AS tiles_n,
    (s.grid_x - 1)::BIGINT * n.tile_m + 1 AS m_min,
    s.grid_x::BIGINT * n.tile_m AS m_max,
    (s.grid_y - 1)::BIGINT * n.tile_n + 1 AS n_min,
    s.grid_y::BIGINT * n.tile_n AS n_max,
    s.grid_z AS batch,
    'one workgroup per tile' AS method
FROM signatures AS s
INNER JOIN kernel_names AS n USING (name_id)
WHERE
    n.family = 'tensile'
    AND (n.decoded ->> '$.generator') = 'Tensile'
    AND coalesce((n.decoded ->> '$.GSU')::INTEGER, 1) = 1
    AND coalesce((n.decoded ->> '$.SK')::INTEGER, 0) = 0
    AND coalesce((n.decoded ->> '$.PK')::INTEGER, 0) = 0
    AND n.tile_m IS NOT NULL
    AND n.tile_n IS NOT NULL
    AND s.grid_x > 0
    AND s.grid_y > 0;
