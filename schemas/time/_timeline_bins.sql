-- Bins of `step_ns`, from launches that are summed by pairs of bins (`paired` names a relation): per lane and bin the time that launches ran, the
-- category that ran longest, and the launches, each counted in the first bin that shows it. Launches that go from one bin to another are spread
-- over the bins between. Rows without a bin are the sums of categories over all lanes.
CREATE OR REPLACE MACRO _timeline_bins(paired, step_ns) AS TABLE
WITH _shared AS (
    SELECT
        * EXCLUDE (n),
        CASE WHEN bin = first_bin THEN n ELSE 0 END AS n,
        CASE
            WHEN first_bin = last_bin THEN ends - begins
            WHEN bin = first_bin THEN n * (bin + 1) * step_ns - begins
            WHEN bin = last_bin THEN ends - n * bin * step_ns
            ELSE n * step_ns
        END AS busy_ns
    FROM (
        SELECT
            * EXCLUDE (last_bin),
            greatest(first_bin, last_bin) AS last_bin,
            unnest(range(first_bin, greatest(first_bin, last_bin) + 1)) AS bin
        FROM query_table(paired)
    )
),

_summed AS (
    SELECT number, process, device, lane, bin, category, sum(busy_ns) AS busy_ns, sum(n) AS n
    FROM _shared
    GROUP BY ALL
)

SELECT
    number,
    process,
    device,
    lane,
    bin,
    sum(busy_ns) AS busy_ns,
    CASE WHEN grouping(bin) = 1 THEN category ELSE arg_max(category, (busy_ns, category)) END AS category,
    sum(n) AS n
FROM _summed
GROUP BY GROUPING SETS ((number, process, device, lane, bin), (category))
ORDER BY number, process, device, lane, bin, busy_ns DESC, category;
