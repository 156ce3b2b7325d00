SELECT category, n, total_ns, mean_ns, share_pct FROM time_by('category') WHERE trace = $trace AND timing <> 'profiled' ORDER BY total_ns DESC, category;
