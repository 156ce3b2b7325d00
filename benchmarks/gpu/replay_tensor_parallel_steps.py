"""Records jobs of two ranks, replays their steps whole on two GPUs at once, and compares wall times with the model's.

    PYTHONPATH=. python3 benchmarks/gpu/replay_tensor_parallel_steps.py OUT [SECONDS] [--only PART …] [--keep]

A decoder that is shared out to both (prefill and decode, by itself and as CUDA graphs), and a training step whose
gradients are summed in buckets. The model's wall time is that of the recording: without the profiler, on both GPUs.
Nothing begins that would not end within SECONDS (300). OUT/steps.json has the comparison, the tables lie beside it.
What hangs is ended, and the rest goes on: where each of its processes stood is at the end of its text file. `--keep`
replays what an earlier call on this machine recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
DECODER = (
    "llama-2-7b", "--layers", "8", "--batch", "4", "--prompt", "1024", "--new-tokens", "2", "--workloads",
    "prefill,decode", "--seconds", "1.5", "--iterations", "3",
)  # fmt: skip
GRAPHS = ("--cuda-graphs",)
TINY = (
    "llama-2-7b", "--tiny", "--device", "cpu", "--prompt", "16", "--new-tokens", "2", "--seconds", "0.3",
    "--workloads", "prefill",
)  # fmt: skip
READING_S = 25.0
STACKS_S = 6.0
"""Before a command is ended, its processes write where they are."""
STACKS = """
import faulthandler, os, sys, time
place = os.path.dirname(__file__)
left = float(os.environ["STACKS_AT"]) - time.time()
if left > 0:
    file = open(os.environ["STACKS_TO"] + "." + str(os.getpid()), "w")
    faulthandler.dump_traceback_later(left, file=file)
sys.path.remove(place)
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # of the machine, if it has one
except ImportError:
    sys.modules["sitecustomize"] = own
"""
TRAINING = ("--seconds", "1.5", "--iterations", "3", "--script", "benchmarks/gpu/data_parallel_program.py")
WALLS = """
    SELECT t.name AS trace, t.rank, m.value AS model_wall_ns, m.low, m.high
    FROM measurements AS m JOIN traces AS t USING (trace_id)
    WHERE m.quantity = 'wall_ns' AND m.repetition IS NULL ORDER BY ALL
"""
STEPS = """
    SELECT t.name AS trace, r.* FROM step_replays AS r JOIN traces AS t ON t.trace_id = r.recorded_trace ORDER BY ALL
"""
KERNELS = """
    SELECT t.name AS trace, k.mode, n.short_name AS kernel, k.grade, sum(k.launches) AS launches,
        sum(k.recorded_ns) AS recorded_ns, sum(k.replay_ns) AS replay_ns, sum(k.waited_ns) AS waited_ns,
        sum(k.wait_ns) AS wait_ns, sum(k.close_ns) AS close_ns, any_value(k.reason) AS reason
    FROM step_kernels AS k JOIN step_replays AS r USING (run_id, step_id, mode)
    JOIN traces AS t ON t.trace_id = r.recorded_trace JOIN signatures AS s USING (signature_id)
    JOIN kernel_names AS n USING (name_id)
    GROUP BY ALL ORDER BY t.name, k.mode, recorded_ns DESC
"""


@dataclass
class Job:
    """Where results lie, until when parts may begin, and what each took."""

    out: Path
    work: Path
    until: float
    seconds: dict[str, float] = field(default_factory=dict)

    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    @property
    def stacks(self) -> Path:
        """Where processes write where they are; Python finds a module there when it starts."""
        place = self.work / "stacks"
        if not place.exists():
            place.mkdir(exist_ok=True)
            (place / "sitecustomize.py").write_text(STACKS)
        return place

    def python(self, name: str, *words: str, longest: float = 200.0) -> bool:
        """Run Python with these words, to the end or to the end of the time; what it says goes to a file."""
        begun = time.monotonic()
        with (self.out / f"{name}.txt").open("w") as said:
            limit = max(1.0, min(self.left(), longest))
            told = {"STACKS_AT": str(time.time() + limit - STACKS_S), "STACKS_TO": str(self.stacks / name)}
            paths = (str(self.stacks), str(Path.cwd()), os.environ.get("PYTHONPATH", ""))
            environment = {**os.environ, **told, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
            process = subprocess.Popen([sys.executable, *words], stdout=said, stderr=said, env=environment)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # which ends its workers, too
                code = -1
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
            for path in sorted(self.stacks.glob(f"{name}.*")):
                said.write(f"\n== process {path.suffix[1:]}\n{path.read_text()}" if path.stat().st_size else "")
                path.unlink()
        self.seconds[name] = round(time.monotonic() - begun, 1)
        sys.stdout.write(f"{self.seconds[name]:6.1f} s  exit {code}  {name}\n")
        sys.stdout.flush()
        return code == 0

    def kerneldb(self, name: str, database: str, *words: str, longest: float = 60.0) -> bool:
        """Run a command on one of the databases."""
        place = ("--db", str(self.work / f"{database}.duckdb"))
        return self.python(name, "-m", "kerneldb", words[0], *place, *words[1:], longest=longest)


@dataclass(frozen=True)
class Part:
    """Steps that are replayed by one command: traces of a database, on how many GPUs.

    It is begun where so many `seconds` are left, and ended after the `longest`.
    """

    name: str
    database: str
    where: str
    gpus: int = 2
    options: tuple[str, ...] = ()
    seconds: float = 30.0
    longest: float = 75.0

    def plan(self, job: Job) -> bool:
        """Plan the steps."""
        words = ("replay", "--in-context", "--where", self.where, "--write-plan", str(job.work / f"{self.name}.plan"))
        return job.kerneldb(f"plan-{self.name}", self.database, *words)

    def replay(self, job: Job, device: tuple[str, ...]) -> None:
        """Run them, and bring the results into the database."""
        plan, journal = (str(job.work / f"{self.name}.{kind}") for kind in ("plan", "journal"))
        gpus = ("--gpus", str(self.gpus)) if self.gpus > 1 else ()
        words = (
            "-P",
            "-m",
            "kerneldb.replay",
            plan,
            "--journal",
            journal,
            "--no-energy",
            *gpus,
            *device,
            *self.options,
        )
        job.python(f"replay-{self.name}", *words, longest=self.longest)

    def read(self, job: Job) -> None:
        """Bring the results into the database."""
        plan, journal = (str(job.work / f"{self.name}.{kind}") for kind in ("plan", "journal"))
        job.kerneldb(f"read-{self.name}", self.database, "replay", "--write-plan", plan, "--read-journal", journal)


PARTS = (
    Part("prefill", "decoder", "trace LIKE '%-prefill-rank%'"),
    Part("training", "training", "true", options=("--no-loops",)),
    Part("decode-graph", "decoder", "trace LIKE '%-decode-cuda-graph-rank%'"),
    Part("prefill-alone", "decoder", "trace LIKE '%-prefill-rank0'", gpus=1, options=("--no-loops",)),
    Part("decode", "decoder", "trace LIKE '%-decode-rank%'", options=("--no-loops",)),
    Part("prefill-graph", "decoder", "trace LIKE '%-prefill-cuda-graph-rank%'"),
)


def rows(job: Job, database: str, name: str, sql: str) -> list[dict[str, Any]]:
    """The rows of a query, which also lie in OUT."""
    path = job.out / f"{database}.{name}.json"
    job.kerneldb(f"query-{database}-{name}", database, "query", sql, "--json", "--output", str(path))
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def told(job: Job, database: str) -> list[dict[str, Any]]:
    """The wall time of each replayed step against the model's; the KERNELS are written too."""
    walls = {row["trace"]: row["model_wall_ns"] for row in rows(job, database, "walls", WALLS)}
    steps = rows(job, database, "steps", STEPS)
    rows(job, database, "kernels", KERNELS)
    return [
        {
            **{name: step[name] for name in ("trace", "rank", "ranks", "mode", "recorded_as", "calls", "rebuilt")},
            **{name: step[name] for name in ("apart", "filled", "streams", "segments", "wall_ns", "reason")},
            "model_wall_ns": walls.get(step["trace"]),
            "off_pct": 100 * (step["wall_ns"] / walls[step["trace"]] - 1)
            if step["wall_ns"] and walls.get(step["trace"]) and step["mode"] == step["recorded_as"]
            else None,
        }
        for step in steps
    ]


def record_training(job: Job, device: tuple[str, ...]) -> None:
    """Record the steps of training."""
    words = ("record", *device, "--tp", "2", "--output", str(job.work / "training"), *TRAINING)
    if job.kerneldb("record-training", "training", *words, longest=75.0):
        (job.work / "training.recorded").touch()


def record_decoder(job: Job, device: tuple[str, ...]) -> None:
    """Record it; without CUDA graphs where those cannot be made."""
    tiny = bool(device)
    for place, further in enumerate((*((GRAPHS,) if not tiny else ()), ())):
        output = ("--output", str(job.work / f"decoder{place or ''}"))
        words = ("record", *(TINY if tiny else DECODER), *further, "--tp", "2", "--name", "decoder", *output)
        if job.kerneldb(f"record-decoder{place or ''}", "decoder", *words, longest=100.0):
            (job.work / "decoder.recorded").touch()
            return


RECORD = {"decoder": record_decoder, "training": record_training}


def main() -> int:
    """Record, plan, replay, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float, nargs="?", default=300.0)
    parser.add_argument("--only", nargs="*", default=[one.name for one in PARTS], help="parts, in their order")
    parser.add_argument("--keep", action="store_true", help="what was recorded before, and not anew")
    parser.add_argument("--tiny", action="store_true", help="on a CPU, where traces have no kernels: records only")
    given = parser.parse_args()
    os.environ.update(NO_MULTICAST)
    given.out.mkdir(parents=True, exist_ok=True)
    work = given.out / ".work" if given.tiny else Path("/tmp/kerneldb-steps")  # noqa: S108 (a machine of our own)
    if not given.keep:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(exist_ok=True)
    for path in work.glob("*.journal*"):
        path.unlink()
    job = Job(given.out, work, time.monotonic() + given.seconds - READING_S)
    device = ("--device", "cpu") if given.tiny else ()
    parts = [one for one in PARTS if one.name in given.only]
    plans: dict[str, Future[bool]] = {}
    with ThreadPoolExecutor(1) as pool:
        for database in dict.fromkeys(one.database for one in parts):
            if not (work / f"{database}.recorded").exists():
                RECORD[database](job, device)
            # a database is written by one process at a time: what follows only reads
            plans |= {one.name: pool.submit(one.plan, job) for one in parts if one.database == database}
        done = []
        for one in () if given.tiny else parts:
            if plans[one.name].result() and job.left() > one.seconds:
                one.replay(job, device)
                done.append(one)
    job.until = time.monotonic() + 2 * READING_S
    for one in done:
        if any(work.glob(f"{one.name}.journal*")):
            one.read(job)
    found = [row for database in ("decoder", "training") for row in told(job, database)]
    (job.out / "steps.json").write_text(json.dumps({"seconds": job.seconds, "steps": found}, indent=1))
    sys.stdout.write("".join(f"{json.dumps(row)}\n" for row in found))
    for path in work.glob("*.journal*"):
        shutil.copy(path, job.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
