SELECT
    count(DISTINCT (op, name, stream)) AS by_operator,
    count(DISTINCT name) AS by_name,
    count(*) AS kernels
FROM kernels
WHERE trace = $trace AND kind = 'kernel';
