-- The terms of all measured stages, over the launches in `selection`.
FROM closure_terms_of('selection');
