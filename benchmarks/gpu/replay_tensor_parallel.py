"""Records a 7B model shared out to two GPUs, replays all of it on both, with collectives, and sums it up.

    PYTHONPATH=. python3 benchmarks/gpu/replay_tensor_parallel.py OUT [--ray]

Needs what `kerneldb` needs, PyTorch, transformers and two GPUs. Every step is the command that a user would type; what
it prints goes to OUT/job.log. OUT/job.json has what must hold: share of GPU time replayed as the same kernel, and
replayed against recorded time, of computation and of collectives apart. The plain exchanges of collectives_program.py
are recorded and replayed in the same way. `--tiny` tries it on a CPU, where traces have operators and no kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
MODEL = ("vicuna-7b", "--batch", "1", "--prompt", "1024", "--new-tokens", "4", "--workloads", "prefill,decode")
TINY = ("--tiny", "--device", "cpu", "--prompt", "16", "--new-tokens", "2", "--seconds", "0.3")
TRACED = ("--trace-only", "--iterations", "1")
EXCHANGES = ("--script", "benchmarks/gpu/collectives_program.py")
GRADES = """
    SELECT t.run, t.name AS trace, k.category = 'COMMUNICATION' AS communication,
        coalesce(k.replay_grade, 'none') AS grade, count(*) AS launches,
        count(DISTINCT k.signature_id) AS signatures, sum(k.duration_ns) AS recorded_ns,
        sum(k.replay_ns) AS replayed_ns
    FROM kernels AS k JOIN traces AS t USING (trace_id)
    WHERE k.timing = 'timeline'
    GROUP BY ALL ORDER BY ALL
"""
PATIENCE_S = 300


class Job:
    """A database, a log, and commands on them."""

    def __init__(self, out: Path) -> None:
        self.out, self.database = out, out / "job.duckdb"
        self.seconds: dict[str, float] = {}

    def kerneldb(self, *arguments: str, name: str = "") -> str:
        """Run a command; returns what it printed. Its notes go to the log."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "kerneldb", arguments[0], "--db", str(self.database), *arguments[1:]]
        with (self.out / "job.log").open("a") as log:
            log.write(f"$ kerneldb {' '.join(arguments)}\n")
            log.flush()
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, text=True, check=False, timeout=PATIENCE_S
            )
            log.write(done.stdout)
        took = round(time.monotonic() - begun, 1)
        self.seconds[name or " ".join(arguments)[:60]] = took
        say(f"{took:6.1f} s  exit {done.returncode}  {' '.join(arguments)[:120]}")
        if done.returncode:
            say((self.out / "job.log").read_text(errors="replace")[-3000:])
        return done.stdout

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        found: list[dict[str, Any]] = json.loads(self.kerneldb("query", sql, "--json") or "[]")
        return found


def say(text: str) -> None:
    """A line that shows at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def record(job: Job, work: Path, given: argparse.Namespace) -> None:
    """Both recordings, into the database."""
    ranks = ("--tp", "2")
    cpu = ("--device", "cpu") if given.tiny else ()
    model = (*MODEL[:1], *TINY) if given.tiny else (*MODEL, "--seconds", str(given.seconds))
    job.kerneldb("record", *model, *ranks, "--output", str(work / "vicuna-7b-tp2"), name="record the model")
    folder = work / "exchanges"
    job.kerneldb("record", *cpu, *ranks, *TRACED, *EXCHANGES, "--output", str(folder), name="record the exchanges")
    job.kerneldb("ingest", "--quiet", str(folder))


def replay(job: Job, given: argparse.Namespace) -> None:
    """All signatures on two workers; then, where wanted, the matrix products once more through Ray."""
    cpu = ("--device", "cpu") if given.tiny else ()
    options = ("--no-energy", "--runs", str(given.runs), *cpu)
    job.kerneldb("replay", "--gpus", "2", *options, name="replay on two")
    if given.ray:
        where = "category IN ('GEMM', 'COMMUNICATION')"
        job.kerneldb("replay", "--ray", "--where", where, *options, name="replay through Ray")


def told(job: Job) -> dict[str, Any]:
    """What must hold, and everything else that is worth a look."""
    for name, command in {
        "reconciliation.txt": ("analyze", "reconciliation", "vicuna-7b-tp2"),
        "collectives.csv": ("analyze", "collectives", "--replays", "--csv"),
        "reconciliation.csv": ("query", "FROM reconciliation ORDER BY ALL", "--csv"),
        "reconciliation_jobs.csv": ("query", "FROM reconciliation_jobs ORDER BY ALL", "--csv"),
        "replay_runs.csv": ("query", "FROM replay_runs ORDER BY ALL", "--csv"),
    }.items():
        (job.out / name).write_text(job.kerneldb(*command))
    job.kerneldb("query", "FROM replays", "-o", str(job.out / "replays.parquet"))
    return {"seconds": job.seconds, "grades": (graded := job.rows(GRADES)), "sums": sums(graded)}


def sums(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By run, and computation and communication apart: the share replayed as the same kernel, and its time."""
    found: dict[str, Any] = {}
    for row in rows:
        part = "communication" if row["communication"] else "computation"
        held = found.setdefault(f"{row['run']} {part}", {"recorded_ns": 0, "same_ns": 0, "replayed_ns": 0.0})
        held["recorded_ns"] += row["recorded_ns"]
        if row["grade"] in {"L0", "L1"}:
            held["same_ns"] += row["recorded_ns"]
            held["replayed_ns"] += row["replayed_ns"]
    for held in found.values():
        held["same_pct"] = 100 * held["same_ns"] / (held["recorded_ns"] or 1)
        held["error_pct"] = 100 * (held["replayed_ns"] / held["same_ns"] - 1) if held["same_ns"] else None
    return found


def keep(work: Path, out: Path) -> None:
    """The recordings, an archive for each."""
    for folder in sorted(one for one in work.iterdir() if one.is_dir()):
        with tarfile.open(out / f"{folder.name}.tar", "w") as archive:
            for one in sorted(folder.rglob("*")):
                if one.is_file() and ".et." not in one.name:
                    archive.add(one, one.relative_to(work))


def main() -> int:
    """Record, replay, tell; the exit code is 1 where computation is off by 3 % or a collective is not L0 or L1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time per workload")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(NO_MULTICAST)
    work = given.out / ".work" if given.tiny else Path("/tmp/kerneldb-job")  # noqa: S108 (a machine of our own)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    job = Job(given.out)
    record(job, work, given)
    keep(work, given.out)
    replay(job, given)
    found = told(job)
    (given.out / "job.json").write_text(json.dumps(found, indent=1))
    say(json.dumps(found["sums"], indent=1))
    computation = [one for name, one in found["sums"].items() if name.endswith("computation")]
    exchanged = [one for name, one in found["sums"].items() if name.endswith("communication")]
    wrong = [one for one in computation if one["error_pct"] is None or abs(one["error_pct"]) > 3]
    return int(bool(wrong) or any(one["same_pct"] < 100 for one in exchanged))


if __name__ == "__main__":
    sys.exit(main())
