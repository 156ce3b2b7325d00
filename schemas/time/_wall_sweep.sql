-- What each device did at every moment from its first start to its last end, without overlap: pieces of computation (class 1), communication (2) and
-- copies (3), and the gaps (0). Of what runs at the same time computation counts first, then communication, then copies; within one of these, the
-- launch that ends last.
--
-- `launch_index` is that launch; of a gap, the launch that ends it. A gap is the host's until `host_ns`, the end of that launch's call; NULL where the call
-- is not known. `used` names rows of `_wall_launches`.
CREATE OR REPLACE MACRO _wall_sweep(used) AS TABLE
-- End and launch in one number, since a window over pairs takes twice as long.
WITH _begun AS (
    SELECT
        place,
        start_ns,
        lead(start_ns) OVER in_time AS next_ns,
        lead(launch_index) OVER in_time AS next_index,
        lead(launch_start_ns) OVER in_time AS launch_start_ns,
        lead(launch_end_ns) OVER in_time AS launch_end_ns,
        lead(api_index) OVER in_time AS api_index,
        lead(process) OVER in_time AS process,
        api_index AS previous_api,
        max(CASE WHEN class = 1 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS computation,
        max(CASE WHEN class = 2 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS communication,
        max(CASE WHEN class = 3 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS copy
    FROM query_table(used)
    WINDOW
        in_time AS (PARTITION BY place ORDER BY start_ns, launch_index),
        so_far AS (PARTITION BY place ORDER BY start_ns, launch_index ROWS UNBOUNDED PRECEDING)
),

-- Nothing begins before next_ns: computation lasts until its latest end, then communication, then copies, then nothing.
_until AS MATERIALIZED (
    SELECT
        *,
        coalesce(next_ns, 9223372036854775807) AS limit_ns,
        greatest(start_ns, least(coalesce(computation // 1099511627776, start_ns), limit_ns))::BIGINT AS computed_ns,
        greatest(computed_ns, least(coalesce(communication // 1099511627776, start_ns), limit_ns))::BIGINT AS communicated_ns,
        greatest(communicated_ns, least(coalesce(copy // 1099511627776, start_ns), limit_ns))::BIGINT AS copied_ns
    FROM _begun
)

SELECT place, 1 AS class, start_ns, computed_ns AS end_ns, (computation % 1099511627776)::BIGINT AS launch_index, NULL::BIGINT AS host_ns,
    NULL::BIGINT AS launch_start_ns, NULL::BIGINT AS api_index, NULL::BIGINT AS previous_api, NULL::VARCHAR AS process
FROM _until
WHERE computed_ns > start_ns
UNION ALL
SELECT place, 2, computed_ns, communicated_ns, (communication % 1099511627776)::BIGINT, NULL, NULL, NULL, NULL, NULL
FROM _until
WHERE communicated_ns > computed_ns
UNION ALL
SELECT place, 3, communicated_ns, copied_ns, (copy % 1099511627776)::BIGINT, NULL, NULL, NULL, NULL, NULL
FROM _until
WHERE copied_ns > communicated_ns
UNION ALL
-- The launches of a graph after its first do not wait for its call any more. `least` would pass over a call that is not known.
SELECT
    place, 0, copied_ns, next_ns, next_index,
    CASE WHEN api_index = previous_api THEN copied_ns WHEN launch_end_ns IS NOT NULL THEN greatest(copied_ns, least(next_ns, launch_end_ns)) END,
    launch_start_ns, api_index, previous_api, process
FROM _until
WHERE next_ns > copied_ns;
