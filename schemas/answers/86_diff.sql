-- FROM diff('before', 'after'): what changed between two traces, or runs. See diff_between.
CREATE OR REPLACE MACRO diff(before_trace, after_trace, threshold := 0.03) AS TABLE
SELECT * FROM diff_between('all_rollups', 'all_launches', before_trace, after_trace, threshold := threshold);
