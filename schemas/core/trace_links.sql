-- Why two traces belong together (print, job), may belong together (hint), or cannot (apart). Names of files and folders prove nothing.
CREATE TABLE trace_links (
    trace_id VARCHAR NOT NULL,  -- Content id of the later trace, in traces.
    other_id VARCHAR NOT NULL,  -- Content id of the other trace, in traces.
    relation VARCHAR NOT NULL,  -- print (the same launches, printed or exported once more), job (ranks that ran together), hint (ranks that may,
    -- without proof: not joined), apart (ranks that cannot).
    method VARCHAR NOT NULL,  -- What was compared: launches, sums, passes, profile; clocks and collectives, clocks and process groups, collectives;
    -- ranks.
    score DOUBLE,  -- Which of several links of one relation is surer: the higher.
    evidence VARCHAR,  -- What was found, in words.
    apart_ns BIGINT  -- [ns] How far the ends of the first and the last collectives of two ranks lie apart.
);
