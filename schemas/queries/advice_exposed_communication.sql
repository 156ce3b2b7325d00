SELECT sum(exposed_communication_ns)::DOUBLE AS at_stake_ns, 100 * sum(exposed_communication_ns) / sum(span_ns) AS share_pct
FROM found_gpu_time
HAVING 100 * sum(exposed_communication_ns) / sum(span_ns) >= 5;
