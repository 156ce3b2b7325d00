-- What may hold up a host thread: calls that wait for the GPU, that allocate, copy or load code, the data loader, the garbage collector and the profiler
-- itself. `precedence` says which counts where several are open: the lowest. `is_blocking` are those in which the host waits for the GPU.
--
-- Of other calls, and of copies that the host does not have to wait for, those of 20 µs and more; launch calls from 1 ms on. What the profiler does for
-- itself has no thread, as it holds up all of them. A value that is read (`aten::item`) takes the whole operator. `source` names launches with trace_id, api_index, kind and copy_kind.
CREATE OR REPLACE MACRO _host_waits(source) AS TABLE
WITH _chosen AS (
    SELECT DISTINCT trace_id FROM query_table(source)
),

-- Names are few: their patterns are looked for once.
_named AS MATERIALIZED (
    SELECT
        name,
        CASE
            WHEN regexp_matches(name, '(?i)synchronize') THEN 'synchronisation'
            WHEN regexp_matches(name, '(?i)memcpy') THEN 'copy'
            WHEN
                regexp_matches(
                    name,
                    '(?i)^(cuda|hip|cu)_?(malloc|free|host_?(alloc|malloc|free|register|unregister)|mem_?(alloc|free|create|map|unmap|release|setaccess))'
                )
                THEN 'allocation'
            WHEN regexp_matches(name, '(?i)(module|library)_?(load|unload|getfunction)') THEN 'loading code'
            ELSE 'other call'
        END AS cause
    FROM (SELECT DISTINCT name FROM api_calls WHERE trace_id IN (FROM _chosen))
),

_waiting AS MATERIALIZED (
    SELECT c.*, n.cause
    FROM api_calls AS c
    INNER JOIN _named AS n USING (name)
    WHERE c.trace_id IN (FROM _chosen) AND c.duration_ns > 0 AND (n.cause <> 'other call' OR c.duration_ns >= 20000)
),

-- Of what launched something: which way a copy goes.
_launching AS (
    SELECT trace_id, api_index, max(copy_kind) FILTER (kind = 'memcpy') AS copy_kind
    FROM query_table(source)
    SEMI JOIN _waiting USING (trace_id, api_index)
    GROUP BY ALL
),

_calls AS (
    SELECT
        c.trace_id,
        c.process,
        c.thread,
        coalesce(p.start_ns, o.start_ns, c.start_ns) AS start_ns,
        coalesce(p.start_ns + p.duration_ns, o.start_ns + o.duration_ns, c.start_ns + c.duration_ns) AS end_ns,
        CASE
            WHEN c.cause <> 'copy' THEN c.cause
            WHEN l.copy_kind = 'DtoH' THEN 'synchronisation'
            WHEN l.copy_kind = 'HtoD' OR NOT regexp_matches(c.name, '(?i)async') THEN 'blocking copy'
            ELSE 'other call'
        END AS cause,
        c.name,
        c.api_index,
        CASE
            WHEN c.cause IN ('synchronisation', 'allocation', 'loading code') THEN 1
            WHEN l.api_index IS NOT NULL AND (c.cause <> 'copy' OR coalesce(l.copy_kind, '') NOT IN ('HtoD', 'DtoH')) THEN 1000000
            ELSE 20000
        END AS least_ns
    FROM _waiting AS c
    LEFT JOIN _launching AS l ON c.trace_id = l.trace_id AND c.api_index = l.api_index
    LEFT JOIN ops AS o
        ON c.trace_id = o.trace_id AND c.op_id = o.op_id AND o.name = 'aten::_local_scalar_dense' AND c.cause IN ('synchronisation', 'copy')
    LEFT JOIN ops AS p ON o.trace_id = p.trace_id AND o.parent_id = p.op_id AND p.name = 'aten::item'
    -- Of the copy and the wait of one operator, the longer.
    QUALIFY
        o.op_id IS NULL
        OR row_number() OVER (PARTITION BY c.trace_id, o.op_id ORDER BY l.copy_kind IS NOT NULL, c.duration_ns DESC, c.api_index) = 1
),

_spans AS (
    SELECT trace_id, process, thread, start_ns, duration_ns, name, kind = 'overhead' AS of_profiler
    FROM ranges
    WHERE trace_id IN (FROM _chosen) AND device IS NULL AND duration_ns > 0
    UNION ALL
    SELECT trace_id, process, thread, start_ns, duration_ns, name, false
    FROM ops
    WHERE trace_id IN (FROM _chosen) AND duration_ns > 0 AND contains(name, 'DataLoader')
),

_known AS (
    SELECT trace_id, process, thread, start_ns, end_ns, cause, name, api_index FROM _calls WHERE end_ns - start_ns >= least_ns
    UNION ALL
    SELECT
        trace_id,
        CASE WHEN NOT of_profiler THEN process END,
        CASE WHEN NOT of_profiler THEN thread END,
        start_ns,
        start_ns + duration_ns,
        CASE
            WHEN of_profiler AND contains(name, 'Lazy Function Loading') THEN 'loading code'
            WHEN of_profiler THEN 'profiler'
            WHEN contains(name, 'DataLoader') OR contains(name, 'data/dataloader.py') THEN 'data loading'
            ELSE 'garbage collection'
        END,
        name,
        NULL
    FROM _spans
    WHERE
        of_profiler
        OR starts_with(name, 'enumerate(DataLoader)')
        OR (contains(name, 'data/dataloader.py') AND contains(name, '__next__'))
        OR starts_with(name, 'Python GC')
        -- The expression alone takes longer than all else that is read of them, and there may be millions of frames.
        OR (
            ((name >= '<bui' AND name < '<buj') OR (name >= 'GC' AND name < 'GD') OR (name >= 'ga' AND name < 'gd'))
            AND regexp_matches(name, '^(<built-in (function|method) (gc\.)?collect\b|gc[.:]|GC\b|garbage)')
        )
)

SELECT
    *,
    list_position(
        ['profiler', 'garbage collection', 'allocation', 'synchronisation', 'blocking copy', 'loading code', 'data loading', 'other call'], cause
    ) AS precedence,
    cause IN ('allocation', 'synchronisation', 'blocking copy') AS is_blocking,
    row_number() OVER (ORDER BY trace_id, start_ns, end_ns, name, api_index) AS number
FROM _known;
