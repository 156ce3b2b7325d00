-- What each call of a collective was given: sizes, splits between the ranks, its process group, and the other end of a send.
--
-- One row per operator `record_param_comms`, of any backend (gloo has no kernels). The launches of a call have its op_id. torch shortens the ranks of
-- large groups to `[0, 8, ...]`; first_rank, rank_stride and group_size then say which they are.
--
-- Columns:
--   trace_id, trace, rank: as in kernels
--   op_id, thread, start_ns, duration_ns: as in ops
--   operation VARCHAR: Operation as torch calls it, such as allreduce or _allgather_base.
--   dtype VARCHAR: Type of the elements, as torch calls it.
--   in_elements BIGINT [elements]: Elements that this rank gives.
--   out_elements BIGINT [elements]: Elements that it gets.
--   in_split VARCHAR: How many of them go to each rank, as JSON list; empty where all are equal.
--   out_split VARCHAR: How many of them come from each rank, as JSON list; empty where all are equal.
--   backend: as in process_groups
--   group_name, group_description, group_ranks, group_size: as in kernels
--   first_rank BIGINT: Rank in the job of the first rank of the group.
--   rank_stride BIGINT: Distance between its ranks in the job.
--   src_rank BIGINT: Rank that sends or broadcasts.
--   dst_rank BIGINT: Rank that receives.
--   collective_seq: as in kernels
--   details: as in ops
-- Example:
--   SELECT trace, operation, in_elements, in_split, out_split, backend, group_size FROM collective_calls ORDER BY start_ns LIMIT 10;
CREATE OR REPLACE VIEW collective_calls AS
WITH _called AS (
    SELECT
        o.*,
        c.extra::JSON AS sizes,
        o.details::JSON AS said
    FROM ops AS o
    INNER JOIN op_calls AS c USING (call_id)
    WHERE contains(c.extra, '"Collective name"')
)

SELECT
    o.trace_id,
    t.name AS trace,
    t.rank,
    o.op_id,
    o.thread,
    o.start_ns,
    o.duration_ns,
    sizes ->> '$."Collective name"' AS operation,
    sizes ->> '$.dtype' AS dtype,
    (sizes ->> '$."In msg nelems"')::BIGINT AS in_elements,
    (sizes ->> '$."Out msg nelems"')::BIGINT AS out_elements,
    said ->> '$."In split size"' AS in_split,
    said ->> '$."Out split size"' AS out_split,
    g.backend,
    said ->> '$."Process Group Name"' AS group_name,
    said ->> '$."Process Group Description"' AS group_description,
    said ->> '$."Process Group Ranks"' AS group_ranks,
    try_cast(sizes ->> '$."Group size"' AS INTEGER) AS group_size,
    try_cast(said ->> '$."Global rank start"' AS BIGINT) AS first_rank,
    try_cast(said ->> '$."Global rank stride"' AS BIGINT) AS rank_stride,
    try_cast(said ->> '$."Src Rank"' AS BIGINT) AS src_rank,
    try_cast(said ->> '$."Dst Rank"' AS BIGINT) AS dst_rank,
    try_cast(said ->> '$.Seq' AS BIGINT) AS collective_seq,
    o.details
FROM _called AS o
INNER JOIN traces AS t USING (trace_id)
LEFT JOIN (
    SELECT trace_id, group_name, any_value(backend) AS backend FROM process_groups GROUP BY ALL
) AS g ON g.trace_id = o.trace_id AND g.group_name = said ->> '$."Process Group Name"';
