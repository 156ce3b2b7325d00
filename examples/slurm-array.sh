#!/bin/bash
# Ingest traces with a job array, without Ray:  sbatch --array=0-7 slurm-array.sh TRACES...
# Some of its tasks again:  sbatch --array=3,5 --export=ALL,SHARES=8 slurm-array.sh TRACES...
# KERNELDB_DB names the lake. A task that fails or is requeued may run again at any time: traces that are there are left alone.
#SBATCH --job-name=kerneldb-ingest
#SBATCH --cpus-per-task=1
#SBATCH --requeue
set -euo pipefail

exec kerneldb ingest --quiet --lock-timeout 600 --shard "$SLURM_ARRAY_TASK_ID/${SHARES:-$SLURM_ARRAY_TASK_COUNT}" "$@"
