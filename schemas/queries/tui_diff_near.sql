-- Which traces can be compared with $trace: those on the same GPUs that spend half of their time or more in kernels that it has, too; and it in theirs.
-- Those of the same rank come first, then those that have most in common.
WITH timed AS (
    SELECT r.trace, coalesce(k.match_name, k.name) AS kernel, sum(r.total_ns) AS ns
    FROM all_rollups AS r
    INNER JOIN kernel_names AS k USING (name_id)
    WHERE r.timing = 'timeline'
    GROUP BY ALL
),

common AS (
    SELECT
        other.trace,
        sum(other.ns) / (SELECT sum(ns) FROM timed WHERE trace = other.trace) AS share_of_other,
        sum(this.ns) / (SELECT sum(ns) FROM timed WHERE trace = $trace) AS share_of_this
    FROM timed AS other
    INNER JOIN timed AS this ON other.kernel = this.kernel AND this.trace = $trace
    WHERE other.trace <> $trace
    GROUP BY other.trace
)

SELECT t.trace
FROM common
INNER JOIN trace_overview AS t USING (trace)
INNER JOIN trace_overview AS this ON this.trace = $trace AND t.device_names IS NOT DISTINCT FROM this.device_names
WHERE least(share_of_other, share_of_this) >= 0.5
ORDER BY t.rank IS NOT DISTINCT FROM this.rank DESC, round(least(share_of_other, share_of_this), 1) DESC, t.ingested_at, t.trace;
