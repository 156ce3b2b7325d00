-- Whether anything was measured whole: without, the reconciliation, which takes long, has nothing to say.
SELECT 1 AS measured FROM measurements LIMIT 1;
