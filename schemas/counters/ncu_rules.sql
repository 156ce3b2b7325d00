-- What the rules of Nsight Compute say of each profiled launch: advice, warnings and estimated speedups.
--
-- Rules are evaluated by ncu when it profiles or prints; their texts are its own. Of several prints of one report those of one count.
--
-- Columns:
--   trace: as in kernels
--   launch_index: as in metrics
--   signature_id, short_name: as in kernels
--   rule VARCHAR: Identifier of the rule, such as SOLBottleneck or CPIStall.
--   section VARCHAR: Identifier of the section that the rule belongs to.
--   kind VARCHAR: OPT (something to optimise), WRN (warning), ERR (error) or INF (information).
--   speedup_pct DOUBLE [%]: Estimated speedup where the cause is removed; NULL where the rule estimates none.
--   speedup_kind VARCHAR: global (of the whole kernel) or local (of the part that the rule looks at).
--   message VARCHAR: What the rule found and recommends.
--   trace_id: as in kernels
-- Example:
--   SELECT count(*) AS findings, max(speedup_pct) AS largest_pct FROM ncu_rules WHERE kind = 'OPT' AND speedup_kind = 'global';
CREATE OR REPLACE VIEW ncu_rules AS
SELECT
    m.trace,
    m.launch_index,
    l.signature_id,
    n.short_name,
    substr(m.metric, 6) AS rule,
    m.section,
    m.instance AS kind,
    m.value AS speedup_pct,
    CASE WHEN m.value IS NOT NULL THEN nullif(trim(m.unit, '% '), '') END AS speedup_kind,
    m.text AS message,
    m.trace_id
FROM launch_metrics AS m
INNER JOIN launches AS l USING (trace_id, launch_index)
LEFT JOIN signatures AS s ON l.signature_id = s.signature_id
LEFT JOIN kernel_names AS n USING (name_id)
WHERE m.metric LIKE 'rule:%';
