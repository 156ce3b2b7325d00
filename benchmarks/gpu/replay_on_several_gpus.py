"""Replays 200 calls (more signatures) on several GPUs and on one, and collectives on two; OUT gets both.

    PYTHONPATH=. python3 benchmarks/gpu/replay_on_several_gpus.py OUT --plans PLAN… [--collectives PLAN]

Needs PyTorch and nvidia-ml-py; plans are made elsewhere with `kerneldb replay --write-plan`. With four GPUs,
collectives are replayed beside the run on one GPU, on the last two GPUs and on cores of their own. `--cpu` tries it
without GPUs.

Times are wall time of whole commands, so that the start of workers counts, and, beside it, from the moment when the
first worker was ready. What one GPU is given ends after nine tenths of as many times what all took as there are GPUs:
the ratio is then proven.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kerneldb.replay.host.fleet import journals
from kerneldb.replay.routes import collective
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import FAILED, SKIPPED

REPLAY = (sys.executable, "-m", "kerneldb.replay")
WARM_UP = """
import torch
from kerneldb.replay.worker.profiling import Session
torch.backends.cudnn.version()
half = torch.ones(64, 64, dtype=torch.float16, device="cuda")
with Session(gpu=True):
    half @ half
    torch.nn.functional.scaled_dot_product_attention(*[half.view(1, 4, 16, 64)] * 3)
for number in range(torch.cuda.device_count()):
    torch.ones(1, device=f"cuda:{number}")
"""
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
SAME = ("L0", "L1")
WANTED = 200
ENOUGH = 0.9
PATIENCE_S = 150


def combined(paths: Sequence[Path], wanted: int) -> Plan:
    """`wanted` calls of all plans in turns; they have as many distinct signatures, or more."""
    plans = [plan.read(path) for path in paths]
    items: dict[str, Item] = {}
    signatures: set[str] = set()
    for item in filter(None, itertools.chain(*itertools.zip_longest(*(one.items for one in plans)))):
        if len(items) >= wanted:
            break
        if item.route != collective.ROUTE:
            items.setdefault(item.id, item)
            signatures |= {kernel.signature_id for kernel in item.kernels}
    return Plan(tuple(items.values()), {"from": [path.name for path in paths], "signatures": len(signatures)})


class Replay:
    """One command, its times and what its journals hold."""

    def __init__(self, name: str, planned: Path, out: Path, options: Iterable[str]) -> None:
        self.name, self.plan, self.journal = name, planned, out / f"{name}.journal"
        self._options = tuple(options)
        self.said: dict[str, Any] = {}

    def run(self, cores: Sequence[int], seconds: float | None = None, gpus: str | None = None) -> dict[str, Any]:
        """Run it on these cores, and sum it up."""
        limit = () if seconds is None else ("--limit-seconds", f"{seconds:.1f}")
        line = [*REPLAY, str(self.plan), "--journal", str(self.journal), "--no-energy", *self._options, *limit]
        begun = time.monotonic()
        seen = {**os.environ, **({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})}
        quiet = subprocess.DEVNULL
        with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=quiet, text=True, env=seen) as process:
            os.sched_setaffinity(process.pid, cores)
            events, rest = self._follow(process, begun)
        wall = time.monotonic() - begun
        self.said = {
            "name": self.name,
            "exit_code": process.returncode,
            "wall_s": round(wall, 2),
            **self._times(events),
        }
        self.said |= summed(journals(self.journal))
        sys.stdout.write(f"== {json.dumps(self.said)}\n" + "".join(rest[-12:] if process.returncode else ()))
        sys.stdout.flush()
        return self.said

    def _follow(
        self, process: subprocess.Popen[str], begun: float
    ) -> tuple[list[tuple[float, dict[str, Any]]], list[str]]:
        events, rest = [], []
        assert process.stderr is not None
        for text in process.stderr:
            try:
                events.append((time.monotonic() - begun, json.loads(text)))
            except ValueError:
                rest.append(text)
            if time.monotonic() - begun > PATIENCE_S:
                process.terminate()
        return events, rest

    def _times(self, events: list[tuple[float, dict[str, Any]]]) -> dict[str, Any]:
        ready = [at for at, event in events if event.get("event") == "ready"]
        done = [at for at, event in events if event.get("event") == "progress"]
        deaths = [event for _, event in events if event.get("event") == "worker"]
        return {
            "ready_s": [round(at, 2) for at in ready],
            "work_s": round(done[-1] - ready[0], 2) if ready and done else None,
            "deaths": [one.get("reason") for one in deaths],
        }


def calls(paths: Iterable[Path]) -> dict[str, journal.CallResult]:
    """The last word on each item, over all journals."""
    return {call.item: call for path in paths for call in journal.read(path).calls if call.status != SKIPPED}


def summed(paths: Sequence[Path]) -> dict[str, Any]:
    """Grades of items and of kernels, and how the items were shared out."""
    found = calls(paths)
    grades = sorted(call.grade for call in found.values())
    kernels = [kernel.grade for call in found.values() for kernel in call.kernels]
    return {
        "items": len(found),
        "grades": {grade: len(list(some)) for grade, some in itertools.groupby(grades)},
        "same_kernels_pct": round(100 * sum(one in SAME for one in kernels) / max(len(kernels), 1), 2),
        "per_journal": {path.name: len(journal.read(path).calls) for path in paths},
        "failures": sorted({call.reason for call in found.values() if call.status == FAILED and call.reason}),
    }


def alike(one: Replay, other: Replay) -> dict[str, Any]:
    """Replayed times of the same calls in two runs: median and quartiles of their ratio."""
    mine, theirs = calls(journals(one.journal)), calls(journals(other.journal))
    times = [
        (call.time.median_ns, theirs[name].time) for name, call in mine.items() if call.time and name in theirs
    ]  # fmt: skip
    ratios = [ours / found.median_ns for ours, found in times if found is not None]
    return {"n": len(ratios), "ratio_quartiles": statistics.quantiles(ratios) if len(ratios) > 1 else ratios}


def exchanged(planned: Path, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Per collective: recorded and replayed, bus bandwidth as nccl-tests count it."""
    items = {item.id: item for item in plan.read(planned).items}
    rows = []
    for name, call in calls(paths).items():
        wanted, kernel = collective.message(items[name]), items[name].kernels[0]
        size = wanted.elements * bytes_of(wanted.dtype)
        replayed = call.time.median_ns if call.time else None
        rows.append({
            "operation": wanted.operation, "dtype": wanted.dtype, "bytes": size, "ranks": wanted.ranks,
            "launches": kernel.launches, "recorded_median_us": (kernel.median_ns or 0) / 1000,
            "replayed_us": replayed and replayed / 1000, "waits_ns": call.inputs.get("wait_ns"), "grade": call.grade,
            "reason": call.reason, "kernel": kernel.name[:60], "planned_grid": kernel.grid,
            "replayed": [one.replayed and (one.replayed.name[:60], one.replayed.grid) for one in call.kernels],
            "bus_gbs": replayed and size / replayed * factor(wanted),
        })  # fmt: skip
    return sorted(rows, key=lambda row: (row["operation"], row["bytes"]))


def bytes_of(dtype: str) -> int:
    """Bytes of an element."""
    import torch

    return int(getattr(torch, dtype).itemsize)


def factor(wanted: collective.Message) -> float:
    """Bus bandwidth ÷ algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
    if wanted.operation.startswith("allreduce"):
        return 2 * (wanted.ranks - 1) / wanted.ranks
    return (wanted.ranks - 1) / wanted.ranks if wanted.operation.startswith((*collective.SHARING, "alltoall")) else 1


def split_cores(workers: int) -> tuple[list[int], list[int]]:
    """The cores in two parts, where there are enough of them."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    return (cores[:half], cores[half:]) if half >= workers else (cores, cores)


def main() -> int:
    """Several, then one beside collectives; the exit code is 1 where one failed or several were not fast enough."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(NO_MULTICAST)
    planned = given.out / "fleet.plan"
    chosen = combined(given.plans, given.calls)
    plan.write(chosen, planned)
    device = ("--device", "cpu") if given.cpu else ()
    runs = ("--runs", str(given.runs))
    if not given.cpu:
        subprocess.run([sys.executable, "-c", WARM_UP], check=False)
    here, there = split_cores(given.workers)
    several = Replay("several", planned, given.out, (*device, *runs, "--gpus", str(given.workers)))
    one = Replay("one", planned, given.out, (*device, *runs))
    few = Replay("collectives", given.collectives or planned, given.out, (*device, "--runs", "30", "--gpus", "2"))
    several.run([*here, *there])
    with ThreadPoolExecutor(2) as pool:
        gpus = None if given.cpu or given.workers < 4 else "2,3"
        beside = pool.submit(few.run, there, gpus=gpus) if given.collectives else None
        one.run(here, ENOUGH * given.workers * several.said["wall_s"])
        _ = beside and beside.result()
    found = {
        "calls": len(chosen.items),
        "signatures": chosen.notes["signatures"],
        "workers": given.workers,
        "runs": [run.said for run in (several, one, few)],
        "ratio_whole": one.said["wall_s"] / several.said["wall_s"],
        "ratio_work": (one.said["work_s"] or 0) / (several.said["work_s"] or 1),
        "one_finished": one.said["exit_code"] == 0,
        "several_against_one": alike(several, one),
        "collectives": exchanged(given.collectives, journals(few.journal)) if given.collectives else [],
    }
    (given.out / "fleet.json").write_text(json.dumps(found, indent=1))
    for row in found["collectives"]:
        sys.stdout.write(f"{json.dumps(row)}\n")
    told = {key: found[key] for key in found if "ratio" in key or key == "several_against_one"}
    sys.stdout.write(f"{json.dumps(told)}\n")
    failed = several.said["exit_code"] or (few.said.get("exit_code") if given.collectives else 0)
    return int(bool(failed) or found["ratio_whole"] < given.at_least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plans", type=Path, nargs="+", required=True)
    parser.add_argument("--collectives", type=Path, help="a plan of collectives; needs four GPUs")
    parser.add_argument("--workers", type=int, default=4, help="GPUs of the first run")
    parser.add_argument("--calls", type=int, default=WANTED)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--at-least", type=float, default=3.0)
    parser.add_argument("--cpu", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
