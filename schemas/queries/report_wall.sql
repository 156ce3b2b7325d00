-- The wall time of a trace by cause and by what ran or was waited for: sums of `_wall_pieces`, one row per device, cause, call, signature and place in the
-- program. Pieces of a millisecond and more are counted apart (`long_ns`); `launch_index` is that of the longest.
WITH chosen AS (FROM kernels WHERE trace = $trace AND timing = 'timeline'),

-- What the peaks of the GPU allow is the same for all launches of a signature.
limits AS (
    SELECT
        signature_id,
        max(duration_ns * greatest(coalesce(pct_peak_flops, 0), coalesce(pct_peak_bandwidth, 0)) / 100) AS least_ns,
        bool_or(coalesce(pct_peak_flops, 0) >= coalesce(pct_peak_bandwidth, 0)) AS is_compute
    FROM chosen
    WHERE pct_peak_flops IS NOT NULL OR pct_peak_bandwidth IS NOT NULL
    GROUP BY signature_id
),

-- Groups are told apart by one number each: that takes half as long as by all their columns.
ran AS (
    SELECT l.launch_index, hash(l.signature_id, l.inferred_id, l.module, l.python_line, l.launch_status = 'graph' OR l.graph_id IS NOT NULL) AS fact,
        l.duration_ns, m.least_ns, m.is_compute
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    LEFT JOIN limits AS m USING (signature_id)
    WHERE t.name = $trace
),

pieces AS MATERIALIZED (FROM _wall_pieces('chosen')),

-- A call that held up several launches is one.
first AS (
    SELECT device, wait_number, min(start_ns) AS start_ns FROM pieces WHERE wait_number IS NOT NULL GROUP BY ALL
),

grouped AS (
    SELECT
        any_value(w.trace_id) AS trace_id,
        any_value(w.device) AS device,
        any_value(w.part) AS part,
        any_value(w.cause) AS cause,
        any_value(w.call) AS call,
        any_value(w.late_rank) AS late_rank,
        count(*) AS n,
        least(sum(w.duration_ns), 9223372036854775807)::BIGINT AS wall_ns,
        count(*) FILTER (w.duration_ns >= 1000000) AS long_n,
        least(coalesce(sum(w.duration_ns) FILTER (w.duration_ns >= 1000000), 0), 9223372036854775807)::BIGINT AS long_ns,
        max(w.duration_ns) AS longest_ns,
        1099511627775 - (max(w.duration_ns::HUGEINT * 1099511627776 + 1099511627775 - w.launch_index) % 1099511627776)::BIGINT AS launch_index,
        count(f.wait_number) AS calls,
        (max(w.duration_ns::HUGEINT * 1099511627776 + w.wait_number) % 1099511627776)::BIGINT AS wait_number,
        (sum(w.duration_ns * least(1, r.least_ns / nullif(r.duration_ns, 0))) FILTER (w.part = 'computation' AND r.least_ns IS NOT NULL))::BIGINT
            AS needed_ns,
        bool_or(r.is_compute) AS is_compute
    FROM pieces AS w
    INNER JOIN ran AS r USING (launch_index)
    LEFT JOIN first AS f ON w.wait_number = f.wait_number AND w.device IS NOT DISTINCT FROM f.device AND w.start_ns = f.start_ns
    GROUP BY hash(w.device, w.part, w.cause, w.call, w.late_rank, r.fact)
),

-- Of this trace alone, before all else: those of all others would be joined with their signatures first.
examples AS MATERIALIZED (
    SELECT l.*
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    WHERE t.name = $trace AND l.launch_index IN (SELECT launch_index FROM grouped)
),

held AS (
    SELECT wait_number, any_value(api_index) AS api_index, any_value(call_start_ns) AS call_start_ns, any_value(call_process) AS call_process,
        any_value(call_thread) AS call_thread
    FROM pieces
    WHERE wait_number IN (SELECT wait_number FROM grouped)
    GROUP BY wait_number
)

SELECT
    g.* EXCLUDE (wait_number),
    h.api_index,
    h.call_start_ns,
    h.call_process,
    h.call_thread,
    l.signature_id,
    l.inferred_id,
    l.module,
    l.python_line,
    l.launch_status = 'graph' OR l.graph_id IS NOT NULL AS is_graph,
    least(sum(g.wall_ns) OVER (), 9223372036854775807)::BIGINT AS span_ns,
    l.kind,
    CASE WHEN l.kind = 'kernel' THEN s.category ELSE upper(l.kind) END AS category,
    s.name_id,
    s.name,
    s.short_name,
    coalesce(f.op, s.op) AS op,
    l.phase,
    s.copy_kind,
    s.bytes,
    s.dtype,
    s.library,
    s.input_strides,
    coalesce(f.gemm_m, s.gemm_m) AS gemm_m,
    coalesce(f.gemm_n, s.gemm_n) AS gemm_n,
    coalesce(f.gemm_k, s.gemm_k) AS gemm_k,
    l.duration_ns AS example_ns,
    l.api_index AS launch_api_index,
    l.launch_start_ns
FROM grouped AS g
INNER JOIN examples AS l USING (trace_id, launch_index)
LEFT JOIN _named_signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN _signature_calls AS f ON l.inferred_id = f.signature_id
LEFT JOIN held AS h ON g.wait_number = h.wait_number
ORDER BY g.wall_ns DESC, g.part, g.cause, g.launch_index;
