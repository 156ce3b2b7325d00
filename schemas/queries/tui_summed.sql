-- How many launches only sums of a tool's report know: of those rollups in `whole` that count, as far as they are no sums of launches.
SELECT coalesce(sum(n), 0)::BIGINT AS summed
FROM whole
WHERE counted AND origin <> 'launches';
