-- What each launch of a collective operation moved, and how fast.
--
-- Sizes and bus bandwidth as in nccl-tests (doc/PERFORMANCE.md; src/gather.cu and src/scatter.cu): a factor makes the bandwidth comparable to that of
-- the links. Algorithm and protocol are read from the names of NCCL and RCCL kernels, where those are compiled for one.
--
-- Columns:
--   trace_id, launch_index, signature_id, trace, run, rank, device, stream, start_ns, end_ns, duration_ns, name, group_name, group_ranks, group_size:
--     as in kernels
--   dtype VARCHAR: Type of the elements.
--   collective_seq: as in kernels
--   operation VARCHAR: Operation, without underscores: allreduce, allgather, reducescatter, ….
--   bytes BIGINT [bytes]: Larger of what a rank gives and gets.
--   algorithm VARCHAR: Algorithm in the name of the kernel, such as RING; NULL where the name has none.
--   protocol VARCHAR: Protocol in the name of the kernel, such as LL; NULL where the name has none.
--   algorithm_gbs DOUBLE [GB/s]: bytes over duration.
--   bus_gbs DOUBLE [GB/s]: Bus bandwidth as nccl-tests computes it: comparable with the speed of the links.
-- Example:
--   SELECT trace, rank, operation, dtype, bytes, duration_ns, bus_gbs FROM collective_launches() LIMIT 10;
CREATE OR REPLACE MACRO collective_launches(source := 'kernels') AS TABLE
WITH _sized AS (
    SELECT
        trace_id,
        launch_index,
        signature_id,
        trace,
        run,
        rank,
        device,
        stream,
        start_ns,
        end_ns,
        duration_ns,
        name,
        group_name,
        group_ranks,
        group_size,
        collective_dtype AS dtype,
        collective_seq,
        lower(regexp_replace(
            coalesce(collective, nullif(regexp_extract(name, '(?i)(?:Kernel|Dev(?:Kernel)?)_([A-Za-z]+)(?:_|\W|$)', 1), '')),
            '^_|_base$|_',
            '',
            'g'
        )) AS operation,
        CASE WHEN collective_in_elements + collective_out_elements IS NOT NULL THEN greatest(collective_in_elements, collective_out_elements) END * CASE
            WHEN regexp_matches(collective_dtype, '(?i)complexdouble') THEN 16
            WHEN regexp_matches(collective_dtype, '(?i)double|long|complexfloat|int64') THEN 8
            WHEN regexp_matches(collective_dtype, '(?i)bfloat16|half|short|float16|int16') THEN 2
            WHEN regexp_matches(collective_dtype, '(?i)float8|byte|char|bool|int8') THEN 1
            WHEN regexp_matches(collective_dtype, '(?i)float|int') THEN 4
        END AS bytes,
        nullif(upper(regexp_extract(name, '(?i)_(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)(?:_|\b)', 1)), '')
            AS algorithm,
        nullif(upper(regexp_extract(name, '(?i)_(LL128|LL|SIMPLE)(?:_|\b)', 1)), '') AS protocol
    FROM query_table(source)
    WHERE timing = 'timeline' AND category = 'COMMUNICATION' AND kind = 'kernel'
)

SELECT
    *,
    bytes / nullif(duration_ns, 0) AS algorithm_gbs,
    bytes / nullif(duration_ns, 0) * CASE
        WHEN group_size IS NULL OR group_size < 1 THEN NULL
        WHEN operation LIKE 'allreduce%' THEN 2 * (group_size - 1) / group_size
        WHEN
            operation LIKE 'allgather%'
            OR operation LIKE 'reducescatter%'
            OR operation LIKE 'alltoall%'
            OR operation IN ('gather', 'scatter')
            THEN (group_size - 1) / group_size
        WHEN operation IN ('broadcast', 'reduce', 'send', 'recv', 'sendrecv') THEN 1
    END AS bus_gbs
FROM _sized;
