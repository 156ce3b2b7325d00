-- One row. In a lake, every commit changes it first, so that two commits at the same time cannot both go through.
CREATE TABLE commit_lock (
    commits BIGINT NOT NULL
);

INSERT INTO commit_lock VALUES (0);

-- Traces of several ranks that ran together; a run may have several of them, one per stage.
ALTER TABLE traces ADD COLUMN job VARCHAR;
