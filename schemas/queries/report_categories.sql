SELECT category, n, total_ns, mean_ns, share_pct FROM categories WHERE trace = $trace ORDER BY total_ns DESC, category;
