-- A table says what each route does, so that no statement names one.
CREATE TABLE replay_routes (route VARCHAR NOT NULL, about VARCHAR, waits BOOLEAN);
INSERT INTO replay_routes VALUES ('collective', 'repeats the exchange between ranks, on as many GPUs as were recorded', true);
