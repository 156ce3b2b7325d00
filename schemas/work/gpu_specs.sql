-- Peaks and limits of GPUs.
--
-- Reference tables: filled anew from ../reference/<table>.csv whenever views and macros are made anew.
CREATE TABLE gpu_specs (
    name VARCHAR NOT NULL,  -- GPU, or architecture where the fact holds for all of it.
    vendor VARCHAR NOT NULL,  -- NVIDIA or AMD.
    arch VARCHAR NOT NULL,  -- Architecture.
    fact VARCHAR NOT NULL,  -- What is told, for example fp16_tflops.
    value DOUBLE,  -- The value, in unit.
    unit VARCHAR,  -- Unit of value.
    source VARCHAR  -- Where the figure comes from.
);
