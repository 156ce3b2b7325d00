-- Peaks and limits of GPUs, with their sources: what each version of kerneldb knows.
CREATE TABLE gpu_specs (
    name VARCHAR NOT NULL,  -- GPU, or architecture where the fact holds for all of it.
    vendor VARCHAR NOT NULL,  -- NVIDIA or AMD.
    arch VARCHAR NOT NULL,  -- Architecture.
    fact VARCHAR NOT NULL,  -- Name of the fact, for example fp16_tflops.
    value DOUBLE,  -- The value, in unit.
    unit VARCHAR,  -- Unit of value.
    source VARCHAR  -- Where the figure comes from.
);
