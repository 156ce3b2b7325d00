SELECT op, n, total_ns, mean_ns, share_pct FROM operators WHERE trace = $trace AND op IS NOT NULL ORDER BY total_ns DESC LIMIT 15;
