-- What users know about a signature, such as its FLOPs.
CREATE TABLE annotations (
    signature_id VARCHAR NOT NULL,  -- The signature that the note is about, in signatures.
    key VARCHAR NOT NULL,  -- What is noted: flops, bytes or role.
    value VARCHAR,  -- The note.
    author VARCHAR,  -- Who noted it.
    noted_at TIMESTAMP,  -- [UTC] When it was noted.
    number DOUBLE  -- The note as a number, of flops and bytes; NULL for a role.
);
