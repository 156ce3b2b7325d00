-- How many launches only sums of a tool's report know: of the rollups in `whole`.
SELECT coalesce(sum(n), 0)::BIGINT AS summed
FROM whole
WHERE timing = 'summed';
