-- How often each function was running when the CPU was sampled, itself and with what it calls.
--
-- Columns:
--   trace: as in kernels
--   process: as in cpu_samples
--   function VARCHAR: Function, or its library in brackets where it has no symbol.
--   self_samples BIGINT: Samples in which it is the innermost function.
--   samples BIGINT: Samples with it anywhere in their stacks.
--   self_share DOUBLE [fraction]: self_samples over all samples of the process.
-- Example:
--   SELECT count(*) AS functions, max(self_samples) AS most, max(self_share) AS largest_share FROM cpu_functions;
CREATE OR REPLACE VIEW cpu_functions AS
WITH _frames AS (
    SELECT trace_id, process, function AS innermost, unnest(list_distinct(string_split(stack, ';'))) AS function
    FROM cpu_samples
),

_sums AS (
    SELECT trace_id, process, function, count(*) FILTER (innermost = function) AS self_samples, count(*) AS samples
    FROM _frames
    GROUP BY trace_id, process, function
),

_processes AS (
    SELECT trace_id, process, count(*) AS samples FROM cpu_samples GROUP BY trace_id, process
)

SELECT t.name AS trace, s.process, s.function, s.self_samples, s.samples, s.self_samples / p.samples AS self_share
FROM _sums AS s
INNER JOIN _processes AS p ON s.trace_id = p.trace_id AND s.process IS NOT DISTINCT FROM p.process
INNER JOIN traces AS t ON s.trace_id = t.trace_id;
