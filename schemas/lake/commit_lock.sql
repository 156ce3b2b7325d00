-- One row, which every commit to a lake changes first, so that of two commits at the same time one has to try again.
CREATE TABLE commit_lock (
    commits BIGINT NOT NULL  -- Commits so far; stays 0 in a file.
);

INSERT INTO commit_lock VALUES (0);
