-- The kernels of each distinct call that launched a wanted signature, in call order: one row per call, list of kernels and ordinal.
WITH wanted AS (SELECT unnest($signatures::VARCHAR[]) AS signature_id),

chosen AS (
    SELECT DISTINCT trace_id, op_id
    FROM selection
    SEMI JOIN wanted USING (signature_id)
    WHERE op_id IS NOT NULL AND launch_status = 'linked'
),

listed AS (
    SELECT
        l.trace_id,
        l.op_id,
        l.signature_id,
        l.duration_ns,
        l.shared_bytes,
        row_number() OVER (PARTITION BY l.trace_id, l.op_id ORDER BY l.launch_index) - 1 AS ordinal
    FROM launches AS l
    SEMI JOIN chosen AS c ON l.trace_id = c.trace_id AND l.op_id = c.op_id
    WHERE l.launch_status = 'linked'
),

lists AS (
    SELECT trace_id, op_id, string_agg(signature_id, ' ' ORDER BY ordinal) AS kernels FROM listed GROUP BY trace_id, op_id
),

variants AS (
    SELECT
        lists.kernels,
        listed.ordinal,
        listed.signature_id,
        count(*) AS launches,
        median(listed.duration_ns)::BIGINT AS median_ns,
        try_cast(sum(listed.duration_ns) AS BIGINT) AS total_ns,
        mode(listed.shared_bytes ORDER BY listed.shared_bytes) AS shared_bytes,
        min({'trace_id': listed.trace_id, 'op_id': listed.op_id}) AS example
    FROM listed
    INNER JOIN lists USING (trace_id, op_id)
    GROUP BY lists.kernels, listed.ordinal, listed.signature_id
)

SELECT
    v.kernels,
    v.ordinal,
    v.signature_id,
    v.launches,
    v.median_ns,
    v.total_ns,
    v.shared_bytes,
    v.example.trace_id AS trace_id,
    v.example.op_id AS op_id,
    s.kind,
    s.call_id,
    n.name,
    s.category,
    s.grid_x,
    s.grid_y,
    s.grid_z,
    s.block_x,
    s.block_y,
    s.block_z,
    s.bytes,
    s.copy_kind,
    sum(v.total_ns) OVER (PARTITION BY v.kernels) AS call_ns
FROM variants AS v
INNER JOIN signatures AS s USING (signature_id)
INNER JOIN kernel_names AS n USING (name_id)
ORDER BY call_ns DESC, v.kernels, v.ordinal;
