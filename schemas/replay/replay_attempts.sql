-- The calls that a replay run tried for launches whose own call is not recorded, in order.
CREATE TABLE replay_attempts (
    run_id VARCHAR NOT NULL,  -- The replay run.
    item_id VARCHAR NOT NULL,  -- Its item (replay_calls).
    attempt_index INTEGER NOT NULL,  -- Place among the attempts at the item, from 0.
    candidate INTEGER,  -- Place among the planned candidates; NULL for a call made from an earlier try.
    op VARCHAR,  -- Operator tried.
    input_dims VARCHAR,  -- Dimensions of its inputs, JSON.
    input_strides VARCHAR,  -- Strides of its inputs in elements, JSON.
    input_dtypes VARCHAR,  -- Types of its inputs, JSON.
    scalars VARCHAR,  -- Its other arguments, JSON.
    overload VARCHAR,  -- The overload that ran.
    why VARCHAR,  -- Why the call was proposed.
    grade VARCHAR,  -- How the kernel that came out compares (L0 to L4).
    same_name BOOLEAN,  -- Whether its name is the recorded one.
    same_grid BOOLEAN,  -- Whether its grid is.
    same_block BOOLEAN,  -- Whether its block is.
    same_shared BOOLEAN,  -- Whether its shared memory is.
    time_ns DOUBLE,  -- [ns] GPU time of the try.
    recorded_ns DOUBLE,  -- [ns] Recorded duration, median.
    score DOUBLE,  -- How well the try agrees, 0 to 1.
    reason VARCHAR,  -- What differs, or the error.
    accepted BOOLEAN  -- Whether this call stands.
);
