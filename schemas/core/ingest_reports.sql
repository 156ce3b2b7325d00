-- What became of the events of a file, by reason: nothing is dropped in silence.
CREATE TABLE ingest_reports (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    file_index INTEGER NOT NULL,  -- Number of the file in its trace.
    outcome VARCHAR NOT NULL,  -- stored, repaired, refused, skipped, lost, …; unread: a value of events that are stored.
    reason VARCHAR NOT NULL,  -- Why.
    n BIGINT NOT NULL,  -- Number of events.
    example VARCHAR  -- One of them.
);
