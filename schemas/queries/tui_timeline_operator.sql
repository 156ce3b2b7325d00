-- Which thread called the operator $op_id of the trace $trace_id, and when.
SELECT process, thread, start_ns FROM ops WHERE trace_id = $trace_id AND op_id = $op_id LIMIT 1;
