-- The files that a trace was read from.
CREATE TABLE trace_files (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    file_index INTEGER NOT NULL,  -- Number of the file in its trace.
    path VARCHAR,  -- Where the file was at ingest.
    role VARCHAR,  -- What the file is to its trace: trace, export, report, power log, recording, …; of several files, the part that it holds, such as
    -- kernel_trace.
    sha256 VARCHAR,  -- Hash of the decompressed bytes.
    bytes BIGINT,  -- [bytes] Size, decompressed.
    compressed_bytes BIGINT,  -- [bytes] Size as stored.
    events BIGINT,  -- Number of events in the file.
    report VARCHAR  -- Further facts about the file that its reader found, as JSON.
);
