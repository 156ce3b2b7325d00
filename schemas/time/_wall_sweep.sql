-- What each device did at every moment from its first start to its last end: a row from the start of each launch to that of the next. In it, computation lasts until
-- `computed_ns` (the launch `computing`, which ends last), then communication until `communicated_ns`, then copies until `copied_ns`, then nothing until
-- `next_ns`. Of what runs at the same time computation counts first, then communication, then copies.
--
-- The gap is the host's until `host_ns`, the end of the call of the launch that ends it (`next_index`); NULL where the call is not known. `reaches` says that the
-- launch lasts beyond the row. `used` names rows of `_wall_launches`, whose `fact`, `needed` and `is_compute` come with their launch; `next_fact` is that of the next.
CREATE OR REPLACE MACRO _wall_sweep(used) AS TABLE
-- End and launch in one number, since a window over pairs takes twice as long, and taken apart by bits: dividing takes ten times as long.
WITH _begun AS (
    SELECT
        place,
        launch_index,
        class,
        start_ns,
        end_ns,
        fact,
        needed,
        is_compute,
        api_index AS previous_api,
        lead(start_ns) OVER in_time AS next_ns,
        lead(launch_index) OVER in_time AS next_index,
        lead(launch_end_ns) OVER in_time AS launch_end_ns,
        lead(api_index) OVER in_time AS api_index,
        lead(fact) OVER in_time AS next_fact,
        max(CASE WHEN class = 1 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS computation,
        max(CASE WHEN class = 2 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS communication,
        max(CASE WHEN class > 2 THEN end_ns::HUGEINT * 1099511627776 + launch_index END) OVER so_far AS copy
    FROM query_table(used)
    WINDOW
        in_time AS (PARTITION BY place ORDER BY start_ns, launch_index),
        so_far AS (PARTITION BY place ORDER BY start_ns, launch_index ROWS UNBOUNDED PRECEDING)
),

-- Nothing begins before next_ns.
_until AS (
    SELECT
        *,
        coalesce(next_ns, 9223372036854775807) AS limit_ns,
        greatest(start_ns, least(coalesce((computation >> 40)::BIGINT, start_ns), limit_ns)) AS computed_ns,
        greatest(computed_ns, least(coalesce((communication >> 40)::BIGINT, start_ns), limit_ns)) AS communicated_ns,
        greatest(communicated_ns, least(coalesce((copy >> 40)::BIGINT, start_ns), limit_ns)) AS copied_ns
    FROM _begun
)

-- The launches of a graph after its first do not wait for its call any more. `least` would pass over a call that is not known.
SELECT
    place, launch_index, start_ns, computed_ns, communicated_ns, copied_ns, next_ns, next_index,
    (computation & 1099511627775)::BIGINT AS computing,
    (communication & 1099511627775)::BIGINT AS communicating,
    (copy & 1099511627775)::BIGINT AS copying,
    CASE WHEN api_index = previous_api THEN copied_ns WHEN launch_end_ns IS NOT NULL THEN greatest(copied_ns, least(next_ns, launch_end_ns)) END AS host_ns,
    api_index, previous_api, fact, needed, is_compute, next_fact,
    class = 2 OR end_ns > next_ns AS reaches
FROM _until;
