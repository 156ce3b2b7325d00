-- By the annotation that was open when the work was launched: on the GPU it runs up to a step later.
SELECT count(*) AS n
FROM kernels
WHERE
    trace = $trace
    AND regexp_matches(range_path, '^ProfilerStep#10[1-4]/')
    AND range_path LIKE '%/' || $annotation;
