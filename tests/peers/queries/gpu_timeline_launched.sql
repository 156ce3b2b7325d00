-- TraceLens follows the flow from the launch to the GPU event, so it counts only what was launched inside the window.
WITH launched AS (
    FROM kernels WHERE trace = $trace AND launch_status NOT IN ('before_window', 'no_launch')
)

SELECT * FROM gpu_time('launched');
