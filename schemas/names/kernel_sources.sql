-- Source code of kernels, archived by the hash under which traces name it.
CREATE TABLE kernel_sources (
    kernel_hash VARCHAR NOT NULL,  -- The hash in the trace.
    trace_id VARCHAR,  -- Trace with which it was archived.
    name VARCHAR,  -- Name of the kernel.
    language VARCHAR,  -- Language of the source, for example triton.
    origin VARCHAR,  -- Who wrote the source: inductor or user.
    source VARCHAR,  -- The text.
    file VARCHAR,  -- The file that it was read from.
    sha256 VARCHAR,  -- SHA-256 of the text.
    archived_at TIMESTAMP  -- When it was archived, UTC.
);
