FROM wall_time_budget('selection', key := $by);
