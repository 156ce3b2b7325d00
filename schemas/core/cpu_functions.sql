-- How often each function was running when the CPU was sampled, itself and with what it calls.
--
-- Columns:
--   trace: as in kernels
--   process: as in cpu_samples
--   function VARCHAR: Function, or its library in brackets where it has no symbol.
--   self_samples BIGINT: Samples in which it is the innermost function.
--   samples BIGINT: Samples with it anywhere in their stacks.
--   self_share DOUBLE [fraction]: self_samples over all samples of the process that have a stack.
-- Example:
--   SELECT count(*) AS functions, max(self_samples) AS most, max(self_share) AS largest_share FROM cpu_functions;
CREATE OR REPLACE VIEW cpu_functions AS
WITH _frames AS (
    SELECT trace_id, process, function AS innermost, unnest(list_distinct(string_split(stack, ';'))) AS function
    FROM cpu_samples
),

_sums AS (
    SELECT t.name AS trace, f.process, f.function, count(*) FILTER (f.innermost = f.function) AS self_samples, count(*) AS samples
    FROM _frames AS f
    INNER JOIN traces AS t ON f.trace_id = t.trace_id
    GROUP BY t.name, f.process, f.function
)

SELECT
    trace,
    process,
    function,
    self_samples,
    samples,
    self_samples / sum(self_samples) OVER (PARTITION BY trace, process) AS self_share
FROM _sums;
