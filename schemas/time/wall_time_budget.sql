-- Where the wall time of each device went, by cause: the rows of a device add up to the time from the first start to the last end, or of the window, to
-- the nanosecond.
--
-- Of what runs at one time, computation counts first, then communication, then copies; gaps belong to the host until the call of the next launch has
-- ended, then to the queue (docs/why.md has the rules). Of computation, `needed_ns` is what the peaks of the GPU allow no kernel to be faster than, and
-- `lost_ns` the rest; where the work of a kernel is not known, its time is in neither.
--
-- Arguments:
--   source: A relation with the columns of `kernels`.
--   key: What else to sum by: phase or iteration (a gap belongs to those of the launch that ends it); empty for nothing.
--   from_ns: [ns] Start of the window, relative to base_ns; the first start of each device where none is given.
--   to_ns: [ns] Its end; the last end where none is given.
-- Columns:
--   trace, device: as in kernels
--   name VARCHAR: The phase or iteration.
--   part VARCHAR: computation, communication (that no computation hides), copy (that neither hides), host (the GPU waited for it), queue (the next
--     launch had been made, but had not started), unattributed, or outside (in the window, but before the first launch or after the last).
--   cause VARCHAR: What of the part. Of computation the category, of copies the kind. Of communication transfer, waiting for a rank, or unsplit (a send
--     or receive, or not all ranks show it). Of the host launching, synchronisation, allocation, blocking copy, data loading, garbage collection, loading
--     code, other call or profiler. Of the queue dependency (a wait for an event of another stream), launch latency (after a late call) or between launches.
--   n BIGINT: Number of stretches of time that are summed.
--   wall_ns BIGINT [ns]: Their summed length.
--   share_pct DOUBLE [%]: Share of the time of the device.
--   known BIGINT: Of computation, of how many of the stretches the work is known; NULL where of none.
--   needed_ns BIGINT [ns]: Of computation, what the known work takes at the peaks of the GPU; NULL where no work is known.
--   lost_ns BIGINT [ns]: Time of kernels of known work beyond needed_ns.
-- Example:
--   SELECT trace, device, part, cause, wall_ns, share_pct FROM wall_time_budget();
CREATE OR REPLACE MACRO wall_time_budget(source := 'kernels', key := '', from_ns := -4000000000000000000, to_ns := 4000000000000000000) AS TABLE
WITH _facts AS (
    SELECT
        trace_id,
        launch_index,
        CASE WHEN kind = 'kernel' THEN category ELSE upper(kind) END AS category,
        copy_kind,
        CASE lower(key)
            WHEN 'phase' THEN phase
            WHEN 'iteration' THEN iteration::VARCHAR
            ELSE CASE WHEN key != '' THEN error('wall_time_budget takes phase or iteration; not ' || key) END
        END AS name,
        CASE
            WHEN pct_peak_flops IS NOT NULL OR pct_peak_bandwidth IS NOT NULL
                THEN least(1, greatest(coalesce(pct_peak_flops, 0), coalesce(pct_peak_bandwidth, 0)) / 100)
        END AS needed
    FROM query_table(source)
    WHERE timing = 'timeline'
),

_cut AS (
    SELECT
        trace,
        trace_id,
        device,
        launch_index,
        part,
        cause,
        greatest(start_ns, coalesce(from_ns, start_ns)) AS start_ns,
        least(end_ns, coalesce(to_ns, end_ns)) AS end_ns
    FROM _wall_pieces(source)
    WHERE end_ns > coalesce(from_ns, start_ns) AND start_ns < coalesce(to_ns, end_ns)
),

_spans AS (
    SELECT trace, device, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM query_table(source)
    WHERE timing = 'timeline' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
    GROUP BY trace, device
),

_all AS (
    SELECT
        c.trace,
        c.device,
        f.name,
        c.part,
        CASE c.part WHEN 'computation' THEN coalesce(f.category, 'OTHER') WHEN 'copy' THEN coalesce(f.copy_kind, 'copy') ELSE c.cause END AS cause,
        c.end_ns - c.start_ns AS wall_ns,
        CASE WHEN c.part = 'computation' THEN floor((c.end_ns - c.start_ns) * f.needed) END AS needed_ns
    FROM _cut AS c
    INNER JOIN _facts AS f ON c.trace_id = f.trace_id AND c.launch_index = f.launch_index
    UNION ALL
    SELECT trace, device, NULL, 'outside', 'before the first launch', least(first_ns, coalesce(to_ns, first_ns)) - from_ns, NULL
    FROM _spans
    WHERE from_ns < first_ns AND from_ns < coalesce(to_ns, first_ns) AND from_ns > -4000000000000000000
    UNION ALL
    SELECT trace, device, NULL, 'outside', 'after the last launch', to_ns - greatest(last_ns, coalesce(from_ns, last_ns)), NULL
    FROM _spans
    WHERE to_ns > last_ns AND to_ns > coalesce(from_ns, last_ns) AND to_ns < 4000000000000000000
)

SELECT
    trace,
    device,
    name,
    part,
    cause,
    count(*) AS n,
    try_cast(sum(wall_ns) AS BIGINT) AS wall_ns,
    100 * sum(wall_ns) / sum(sum(wall_ns)) OVER (PARTITION BY trace, device) AS share_pct,
    nullif(count(needed_ns), 0) AS known,
    try_cast(sum(needed_ns) AS BIGINT) AS needed_ns,
    try_cast(sum(wall_ns) FILTER (needed_ns IS NOT NULL) - sum(needed_ns) AS BIGINT) AS lost_ns
FROM _all
GROUP BY trace, device, name, part, cause
ORDER BY trace, device, name, wall_ns DESC, part, cause;
