-- What the collectives of a trace exchanged in a window of time, and between whom.
SELECT op_id, operation, in_split, out_split, group_name, group_ranks, group_size, first_rank, rank_stride, src_rank, dst_rank, details
FROM collective_calls
WHERE trace_id = $trace_id AND start_ns BETWEEN $from_ns AND $until_ns
ORDER BY op_id;
