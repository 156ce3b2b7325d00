-- What `tui_timeline_paired` finds of whole traces that begin at 0 of the axis, from their stored bins: $stored_step_ns is a multiple of those.
-- Categories are numbers (see `tui_timeline_categories`).
WITH placed AS (
    SELECT
        t.trace_id,
        t.bin_ns,
        p.number
    FROM (SELECT unnest($stored_traces::VARCHAR[]) AS trace_id, unnest($stored_numbers::USMALLINT[]) AS number) AS p
    INNER JOIN traces AS t USING (trace_id)
),

categories AS (
    SELECT
        category,
        dense_rank() OVER (ORDER BY category)::USMALLINT AS category_number
    FROM (SELECT DISTINCT category FROM signatures WHERE category IS NOT NULL)
)

SELECT
    p.number,
    CASE WHEN $stored_several THEN b.process END AS process,
    b.device,
    coalesce(2 * b.stream, 2 * b.queue + 1) AS lane,
    c.category_number AS category,
    b.first_bin * p.bin_ns // $stored_step_ns AS first_bin,
    b.last_bin * p.bin_ns // $stored_step_ns AS last_bin,
    sum(b.n) AS n,
    sum(b.begins_ns) AS begins,
    sum(b.ends_ns) AS ends
FROM timeline_bins AS b
INNER JOIN placed AS p USING (trace_id)
LEFT JOIN categories AS c USING (category)
GROUP BY ALL;
