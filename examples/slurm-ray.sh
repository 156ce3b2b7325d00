#!/bin/bash
# Ingest traces with a Ray cluster that lives as long as the job:  sbatch --nodes=2 slurm-ray.sh TRACES...
# KERNELDB_DB names the lake. Nodes may be lost on the way; only the first one, where this script runs, must last.
#SBATCH --job-name=kerneldb-ray
#SBATCH --ntasks-per-node=1
set -euo pipefail

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$(hostname --all-ip-addresses | cut -d' ' -f1)
address=${address:-127.0.0.1}:6379
cpus=${SLURM_CPUS_PER_TASK:-1}
on() { srun --overlap --nodes=1 --ntasks=1 --nodelist="$1" "${@:2}"; }

on "${nodes[0]}" ray start --head --node-ip-address="${address%:*}" --port=6379 --num-cpus="$cpus" --include-dashboard=false --block &
until ray status --address="$address" >/dev/null 2>&1; do sleep 1; done
for node in "${nodes[@]:1}"; do
  on "$node" ray start --address="$address" --num-cpus="$cpus" --block &
done

kerneldb ingest --quiet --ray "$address" "$@"
