-- Counters of single instructions and source lines, as the source page and reports of Nsight Compute hold them.
CREATE TABLE source_counters (
    trace_id VARCHAR NOT NULL,  -- Content id of the trace, in traces.
    launch_index BIGINT,  -- Launch, in launches; NULL for source pages, which print no numbers of launches.
    kernel_index BIGINT NOT NULL,  -- Number of the profiled kernel in its file, from 0.
    kernel VARCHAR,  -- Name of the kernel, as printed.
    level VARCHAR NOT NULL,  -- sass (an instruction), or source (a line, with the sums over its instructions).
    file VARCHAR,  -- Source file, where the program was compiled with line information.
    line BIGINT,  -- Line in the source file.
    instruction BIGINT,  -- Number of the instruction in its kernel, from 0.
    address BIGINT,  -- Address of the instruction.
    text VARCHAR,  -- The instruction or the line of source.
    metric VARCHAR NOT NULL,  -- Name of the counter, as printed.
    value DOUBLE  -- Value of the counter, in the unit of its name.
);
