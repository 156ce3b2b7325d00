SELECT phase, n, total_ns, mean_ns, share_pct FROM time_by('phase') WHERE trace = $trace AND timing <> 'profiled' AND phase IS NOT NULL ORDER BY total_ns DESC, phase LIMIT 15;
