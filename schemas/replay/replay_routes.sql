-- The routes by which launches are replayed, as the kerneldb that replayed last knew them; those of other packages, too.
CREATE TABLE replay_routes (
    route VARCHAR NOT NULL,  -- Name, as in replays and replay_calls.
    about VARCHAR,  -- What it does, in a line.
    waits BOOLEAN  -- Whether recorded times hold waiting for other ranks, so that replayed ones are not compared with them.
);
