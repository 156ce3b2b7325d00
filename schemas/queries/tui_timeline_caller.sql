-- Which thread made the call $api_index of the trace $trace_id, and when. Asked by itself: for each row of a view, it takes longer than the view.
SELECT process, thread, start_ns FROM api_calls WHERE trace_id = $trace_id AND api_index = $api_index LIMIT 1;
