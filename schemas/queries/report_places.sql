-- The rows of the statement above, with the operator around the call that held up the host (the outermost one), and for the hundred with most time the
-- innermost Python frame that is the user's: neither of PyTorch and Triton themselves, nor of Python's library, nor built in. `odd_side` is a side that is no
-- multiple of 8 of a product of 16-bit numbers which takes over 1.6 times what its work needs, and the distance of rows in memory, of the
-- result (n) or of an input (its strides; where they are not known, k): these rows are not aligned to 16 bytes.
WITH numbered AS (
    SELECT * EXCLUDE (idle_each), row_number() OVER (ORDER BY wall_ns DESC, part, cause, launch_index) AS place FROM found_wall
),

moments AS (
    SELECT
        w.place,
        w.trace_id,
        coalesce(w.call_process, c.process) AS process,
        coalesce(w.call_thread, c.thread) AS thread,
        coalesce(w.call_start_ns, w.launch_start_ns) AS ts_ns
    FROM numbered AS w
    LEFT JOIN api_calls AS c ON w.trace_id = c.trace_id AND w.launch_api_index = c.api_index
    WHERE w.place <= 100
),

lines AS (
    SELECT m.place, arg_max(r.name, (r.start_ns, r.depth)) AS line
    FROM moments AS m
    INNER JOIN ranges AS r
        ON
            m.trace_id = r.trace_id
            AND m.process = r.process
            AND m.thread = r.thread
            AND r.start_ns <= m.ts_ns
            AND r.start_ns + r.duration_ns >= m.ts_ns
    WHERE
        r.kind = 'python_function'
        AND NOT regexp_matches(
            r.name,
            '^<|^nn\.Module: |(^|/)(torch|triton|torchvision/models|functorch)/|(^|/)lib/python[0-9.]+/[a-z_]+\.py|^(contextlib|threading|runpy|functools|inspect|os|abc|copy|typing|weakref|collections/__init__|importlib/[a-z_/]+|concurrent/[a-z_/]+|asyncio/[a-z_]+|multiprocessing/[a-z_]+|selectors|queue|random|enum|re)\.py'
        )
    GROUP BY m.place
),

steps AS (
    SELECT trace_id, op_id
    FROM ops
    WHERE trace_id IN (SELECT trace_id FROM numbered) AND (name LIKE 'ProfilerStep#%' OR name LIKE 'Optimizer.%')
),

-- The outermost operator around a call: the last one that began without another around it.
roots AS (
    SELECT o.trace_id, o.process, o.thread, o.start_ns, o.start_ns + o.duration_ns AS end_ns, o.name
    FROM ops AS o
    LEFT JOIN steps AS s ON o.trace_id = s.trace_id AND o.parent_id = s.op_id
    WHERE
        o.start_ns IS NOT NULL
        AND o.trace_id IN (SELECT trace_id FROM numbered)
        AND o.name NOT LIKE 'ProfilerStep#%'
        AND o.name NOT LIKE 'Optimizer.%'
        AND (o.depth = 0 OR s.op_id IS NOT NULL)
),

called AS (
    SELECT place, trace_id, call_process AS process, call_thread AS thread, call_start_ns FROM numbered WHERE call_start_ns IS NOT NULL
)

SELECT
    w.*,
    CASE
        WHEN w.part = 'computation' AND w.category = 'GEMM' AND w.dtype IN ('fp16', 'bf16') AND coalesce(1.6 * w.needed_ns < w.wall_ns, true)
            THEN list_filter(
                [w.gemm_n, w.gemm_k, w.gemm_m],
                lambda side : side >= 64 AND side % 8 <> 0
                AND (side = w.gemm_n OR coalesce(regexp_matches(w.input_strides, '\b' || side || '\b'), side = w.gemm_k))
            )[1]
    END AS odd_side,
    coalesce(l.line, CASE WHEN w.call IS NULL AND NOT regexp_matches(w.python_line, '(^|/)(torch|triton)/|^<') THEN w.python_line END) AS line,
    CASE WHEN c.call_start_ns < r.end_ns THEN r.name END AS call_op
FROM numbered AS w
LEFT JOIN lines AS l USING (place)
LEFT JOIN called AS c USING (place)
ASOF LEFT JOIN roots AS r ON c.trace_id = r.trace_id AND c.process = r.process AND c.thread = r.thread AND c.call_start_ns >= r.start_ns
ORDER BY w.place;
