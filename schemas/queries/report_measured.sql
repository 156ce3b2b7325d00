-- Whether anything was measured whole: without, the closure, which takes long, has nothing to say.
SELECT 1 AS measured FROM measurements LIMIT 1;
