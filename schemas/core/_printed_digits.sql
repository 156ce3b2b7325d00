-- The rows of `printed`, and how far off `printed_ns` of each may be for digits that were not printed: half of their unit, NULL where all were. The
-- times of a `report` have as many digits as the longest of them, and those that all end with zeros are in a greater unit.
CREATE OR REPLACE MACRO _printed_digits(printed) AS TABLE
WITH written AS (
    SELECT *, printed_ns::VARCHAR AS written_ns, rtrim(written_ns, '0') AS digits
    FROM query_table(printed)
),

scaled AS (
    SELECT
        * EXCLUDE (written_ns, digits),
        greatest(
            length(written_ns) - max(length(digits)) OVER of_report,
            min(length(written_ns) - length(digits)) FILTER (digits <> '') OVER of_report
        ) AS zeros
    FROM written
    WINDOW of_report AS (PARTITION BY report)
)

SELECT * EXCLUDE (zeros), CASE WHEN zeros > 0 THEN pow(10, zeros) / 2 END AS rounded_ns
FROM scaled;
