-- The names of the traces that a name, run, label or pattern means.
SELECT trace FROM _traces_named($wanted);
