-- The signatures of all measured stages, over the launches in `selection`, for the queries that follow.
CREATE OR REPLACE TEMP TABLE closure_selected AS
FROM closure_kernels_of('selection');
