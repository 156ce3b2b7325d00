-- The categories in the order of the numbers that `tui_timeline_launches_all` gives them, from 1 on.
SELECT DISTINCT category FROM signatures WHERE category IS NOT NULL ORDER BY category;
