-- What `tui_timeline_paired` finds of whole traces that begin at 0 of the axis, from their stored bins: $step_ns is a multiple of those.
WITH placed AS (
    SELECT
        t.trace_id,
        t.bin_ns,
        p.number
    FROM (SELECT unnest($traces::VARCHAR[]) AS trace_id, unnest($numbers::USMALLINT[]) AS number) AS p
    INNER JOIN traces AS t USING (trace_id)
),

paired AS (
    SELECT
        p.number,
        CASE WHEN $several THEN b.process END AS process,
        b.device,
        coalesce(2 * b.stream, 2 * b.queue + 1) AS lane,
        b.category,
        b.first_bin * p.bin_ns // $step_ns AS first_bin,
        b.last_bin * p.bin_ns // $step_ns AS last_bin,
        sum(b.n) AS n,
        sum(b.begins_ns) AS begins,
        sum(b.ends_ns) AS ends
    FROM timeline_bins AS b
    INNER JOIN placed AS p USING (trace_id)
    GROUP BY ALL
)

FROM _timeline_bins('paired', $step_ns);
