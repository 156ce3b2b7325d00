-- Operator calls by id.
SELECT call_id, op, input_dims, input_strides, input_dtypes, scalars, extra FROM op_calls WHERE list_contains($ids::VARCHAR[], call_id);
