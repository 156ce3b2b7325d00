-- Which fact of gpu_specs is the peak for an element type.
CREATE TABLE peak_types (
    dtype VARCHAR NOT NULL,  -- Element type, as in kernel_names.
    fact VARCHAR NOT NULL  -- Peak, as in gpu_specs, for example fp16_tflops.
);
