-- Measured workloads of jobs of several ranks, computation and communication apart; figures are per iteration.
--
-- Times are means over the ranks, the wall time is the longest of them, the energy the sum. A collective lasts until the last rank has come: what a
-- launch has beyond the shortest of its ranks is waiting (collective_waits), the rest transfer, and replays of collectives are held to that.
-- Computation is everything else, copies too.
CREATE TABLE reconciliation_jobs (
    job VARCHAR NOT NULL,  -- Name that the traces of the job have in common.
    workload VARCHAR NOT NULL,  -- Workload.
    mode VARCHAR,  -- Mode: eager, cuda_graph.
    run VARCHAR,  -- Run.
    model VARCHAR,  -- Model.
    gpu VARCHAR,  -- GPU.
    ranks BIGINT NOT NULL,  -- Ranks whose traces are here.
    world_size INTEGER,  -- Ranks of the job.
    wall_ns DOUBLE,  -- [ns] Longest measured wall time of the ranks.
    energy_mj DOUBLE,  -- [mJ] Energy of all ranks; NULL where that of one is not known.
    computation_n DOUBLE,  -- Launches but for communication, per rank.
    computation_ns DOUBLE,  -- [ns] Their recorded time, per rank.
    computation_replayed_ns DOUBLE,  -- [ns] Replayed time of those that were replayed, per rank.
    computation_replayed_pct DOUBLE,  -- [%] Share of the recorded time of computation that was replayed.
    computation_error_pct DOUBLE,  -- [%] Replayed against recorded time of the same launches.
    communication_n DOUBLE,  -- Launches of collectives, per rank.
    communication_ns DOUBLE,  -- [ns] Their recorded time, waiting included, per rank.
    transfer_ns DOUBLE,  -- [ns] The part of it that is transfer: the shortest launch of all ranks.
    wait_ns DOUBLE,  -- [ns] The part of it that is waiting for other ranks.
    longest_wait_ns DOUBLE,  -- [ns] Waiting of the rank that waits most.
    slowest_rank INTEGER,  -- Rank that waits least: the others wait for it.
    transfer_replayed_ns DOUBLE,  -- [ns] Replayed transfer of the collectives that were replayed, per rank.
    transfer_replayed_pct DOUBLE,  -- [%] Share of transfer_ns that was replayed.
    transfer_error_pct DOUBLE  -- [%] Replayed against recorded transfer of the same collectives.
);
