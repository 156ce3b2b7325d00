-- FROM diff('before', 'after'): what changed between two traces, or runs. See diff_between.
CREATE OR REPLACE MACRO diff(before_trace, after_trace, threshold := 0.03) AS TABLE
SELECT * FROM diff_between('kernel_rollups', 'kernels', before_trace, after_trace, threshold := threshold);
