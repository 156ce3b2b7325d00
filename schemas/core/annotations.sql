-- What users know about a signature, such as its FLOPs.
CREATE TABLE annotations (
    signature_id VARCHAR NOT NULL,  -- The signature.
    key VARCHAR NOT NULL,  -- What is noted.
    value VARCHAR,  -- The note.
    author VARCHAR,  -- Who noted it.
    noted_at TIMESTAMP,  -- [UTC] When.
    number DOUBLE  -- Value of the note where it is arithmetic: flops, bytes.
);
