-- The wall time of a trace by cause and by what ran or was waited for: sums of `_wall_pieces`, one row per device, cause, call, signature and place in the
-- program. Pieces of a millisecond and more are counted apart (`long_ns`); `launch_index` is that of the longest; `idle_each` has the length of each piece in
-- which nothing ran, for their median; `call_ns` is how long the longest call lasted; `carried` are the longest gaps after calls that had ended by then, up to
-- a hundred. `place` numbers the rows, most time first.
WITH chosen AS (FROM kernels WHERE trace = $trace),

used AS MATERIALIZED (FROM _wall_launches('chosen')),

places AS MATERIALIZED (FROM _wall_places('used')),

waits AS MATERIALIZED (FROM _wall_waits('used', 'places')),

summed AS MATERIALIZED (
    SELECT
        w.place,
        w.code,
        w.number,
        w.late_rank,
        w.fact,
        count(*) AS n,
        len(list_distinct(list(w.launch_index) FILTER (w.code = 3))) AS collectives,
        sum(w.end_ns - w.start_ns) AS wall_ns,
        count(*) FILTER (w.end_ns - w.start_ns >= 1000000) AS long_n,
        coalesce(sum(w.end_ns - w.start_ns) FILTER (w.end_ns - w.start_ns >= 1000000), 0) AS long_ns,
        max((w.end_ns - w.start_ns)::HUGEINT * 1099511627776 + 1099511627775 - w.launch_index) AS longest,
        min(w.start_ns) AS first_ns,
        arg_max(w.start_ns, (w.end_ns - w.start_ns, -w.start_ns), 100) FILTER (w.number IS NOT NULL) AS longest_starts,
        arg_max(w.end_ns, (w.end_ns - w.start_ns, -w.start_ns), 100) FILTER (w.number IS NOT NULL) AS longest_ends,
        sum(floor((w.end_ns - w.start_ns) * w.needed)) AS needed_ns,
        sum(w.end_ns - w.start_ns) FILTER (w.needed IS NOT NULL) AS known_ns,
        count(w.needed) AS known,
        bool_or(w.is_compute) FILTER (w.needed IS NOT NULL) AS is_compute,
        list(w.end_ns - w.start_ns) FILTER (w.code >= 6) AS idle_each
    FROM _wall_cuts('used', 'places', 'waits') AS w
    GROUP BY w.place, w.code, w.number, w.late_rank, w.fact
),

-- A call that held up several launches is one.
named AS (
    SELECT
        s.*,
        w.name AS call,
        w.cause,
        w.end_ns - w.start_ns AS call_ns,
        list_transform(
            list_filter(list_zip(s.longest_ends, s.longest_starts), lambda piece : piece[2] >= w.end_ns),
            lambda piece : struct_pack(
                duration_ns := piece[1] - piece[2], start_ns := piece[2], waited_until_ns := w.end_ns, process := w.process, thread := w.thread
            )
        ) AS carried,
        s.number IS NOT NULL AND s.first_ns = min(s.first_ns) OVER (PARTITION BY s.place, s.number) AS is_first
    FROM summed AS s
    LEFT JOIN waits AS w USING (number)
),

grouped AS (
    SELECT
        place,
        code,
        any_value(cause) AS cause,
        call,
        late_rank,
        sum(n)::BIGINT AS n,
        sum(collectives)::BIGINT AS collectives,
        sum(known)::BIGINT AS known,
        least(sum(wall_ns), 9223372036854775807)::BIGINT AS wall_ns,
        sum(long_n)::BIGINT AS long_n,
        least(sum(long_ns), 9223372036854775807)::BIGINT AS long_ns,
        (max(longest) >> 40)::BIGINT AS longest_ns,
        1099511627775 - (max(longest) & 1099511627775)::BIGINT AS launch_index,
        count(*) FILTER (is_first) AS calls,
        arg_max(number, (longest >> 40, number)) AS number,
        max(call_ns) AS call_ns,
        list_reverse_sort(flatten(list(carried)))[:100] AS carried,
        sum(needed_ns)::BIGINT AS needed_ns,
        try_cast(sum(known_ns) AS BIGINT) AS known_ns,
        bool_or(is_compute) AS is_compute,
        list_sort(flatten(list(idle_each))) AS idle_each
    FROM named
    GROUP BY place, code, cause, call, late_rank, fact
),

-- Before they get their names: sorting those takes longer.
ordered AS (
    SELECT
        g.* REPLACE (coalesce(g.cause, c.cause) AS cause),
        c.part,
        row_number() OVER (ORDER BY g.wall_ns DESC, c.part, coalesce(g.cause, c.cause), g.launch_index) AS rank,
        least(sum(g.wall_ns) OVER (), 9223372036854775807)::BIGINT AS span_ns
    FROM grouped AS g
    INNER JOIN _wall_causes() AS c USING (code)
)

SELECT
    g.rank AS place,
    p.trace_id,
    p.device,
    g.part,
    g.cause,
    g.* EXCLUDE (place, code, rank, part, cause, number, span_ns),
    w.start_ns AS call_start_ns, w.process AS call_process, w.thread AS call_thread,
    l.module,
    l.python_line,
    l.launch_status = 'graph' OR l.graph_id IS NOT NULL AS is_graph,
    g.span_ns,
    l.kind,
    CASE WHEN l.kind = 'kernel' THEN s.category ELSE upper(l.kind) END AS category,
    s.name_id,
    k.short_name,
    coalesce(f.op, s.op) AS op,
    coalesce(f.level, s.level) AS level,
    s.copy_kind,
    s.dtype,
    s.input_strides,
    coalesce(f.gemm_m, s.gemm_m) AS gemm_m,
    coalesce(f.gemm_n, s.gemm_n) AS gemm_n,
    coalesce(f.gemm_k, s.gemm_k) AS gemm_k,
    l.api_index AS launch_api_index,
    l.launch_start_ns
FROM ordered AS g
INNER JOIN places AS p USING (place)
INNER JOIN launches AS l ON l.trace_id = p.trace_id AND g.launch_index = l.launch_index
LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN kernel_names AS k USING (name_id)
LEFT JOIN signatures AS f ON l.inferred_id = f.signature_id
LEFT JOIN waits AS w ON g.number = w.number;
