-- What routes do stands in a table, so that no statement knows them by name.
CREATE TABLE replay_routes (route VARCHAR NOT NULL, about VARCHAR, waits BOOLEAN);
INSERT INTO replay_routes VALUES ('collective', 'exchanges what the ranks exchanged, on as many GPUs as it was recorded on', true);
