-- Which row of gpu_specs a printed device name means.
--
-- Which row of gpu_specs a printed device name means. Names without vendor words, case and punctuation (kerneldb.gpus).
CREATE TABLE gpu_names (
    printed VARCHAR NOT NULL,  -- Device name in lower case without vendor words and punctuation; architecture and compute units for devices without a
    -- name.
    name VARCHAR NOT NULL  -- GPU, as in gpu_specs.
);
