"""Replays plans on a GPU machine and sums up how close the replay came. Needs torch and nvidia-ml-py only.

    PYTHONPATH=. python3 benchmarks/gpu/replay_plans.py PLAN.jsonl… [--out FOLDER] [--cache mixed warm cold]
        [--spacing idle queued] [--repeat 3] [--limit-seconds 90] [-- further options of python -m kerneldb.replay]

For every plan, cache state, spacing and repetition it writes a journal and a summary into the folder (default $OUT):
share of launches and of recorded GPU time by grade, replayed ÷ recorded time by category and by route over L0 and L1
kernels, every kernel that is not L0 with its reason, and the time spent.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kerneldb.names import decode
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, PlannedKernel
from kerneldb.replay.wire.results import CallResult, KernelResult

HEADLINE = frozenset({"L0", "L1"})


@dataclasses.dataclass
class Sum:
    """Launches and nanoseconds of a group of kernels; `median_ns` and `mean_ns` replayed, times the launches."""

    launches: int = 0
    recorded_ns: float = 0.0
    median_ns: float = 0.0
    mean_ns: float = 0.0

    def add(self, planned: PlannedKernel, replayed: KernelResult | None) -> None:
        self.launches += planned.launches
        self.recorded_ns += planned.total_ns or 0
        if replayed is not None and replayed.time is not None:
            self.median_ns += replayed.time.median_ns * planned.launches
            self.mean_ns += replayed.time.mean_ns * planned.launches

    def row(self, whole: Sum) -> dict[str, float]:
        return {
            "launches": self.launches,
            "launch_share": round(self.launches / max(whole.launches, 1), 5),
            "recorded_us": round(self.recorded_ns / 1000, 1),
            "time_share": round(self.recorded_ns / max(whole.recorded_ns, 1), 5),
            "median_over_recorded": round(self.median_ns / max(self.recorded_ns, 1), 4),
            "mean_over_recorded": round(self.mean_ns / max(self.recorded_ns, 1), 4),
        }


def category(kernel: PlannedKernel) -> str:
    return kernel.kind.upper() if kernel.kind != "kernel" else decode(kernel.name).category


def kernels(planned: plan.Plan, read: journal.Journal) -> Iterator[tuple[Item, PlannedKernel, CallResult | None, Any]]:
    """Every planned kernel with the result of its call and its own."""
    calls = {one.item: one for one in read.calls}
    for item in planned.items:
        call = calls.get(item.id)
        found = {} if call is None else {one.ordinal: one for one in call.kernels}
        for kernel in item.kernels:
            yield item, kernel, call, found.get(kernel.ordinal)


def summary(planned: plan.Plan, read: journal.Journal) -> dict[str, Any]:
    whole = Sum()
    groups: dict[tuple[str, str], Sum] = collections.defaultdict(Sum)
    misses: list[dict[str, Any]] = []
    for item, kernel, call, replayed in kernels(planned, read):
        grade = "none" if replayed is None else replayed.grade
        whole.add(kernel, None)
        groups["grade", grade].add(kernel, replayed)
        if grade in HEADLINE:
            for group in (("category", category(kernel)), ("route", item.route), ("all", "L0+L1")):
                groups[group].add(kernel, replayed)
        if grade != "L0":
            misses.append(miss(item, kernel, call, replayed))
    tables: dict[str, Any] = {"grade": {}, "category": {}, "route": {}, "all": {}}
    for (table, name), held in sorted(groups.items()):
        tables[table][name] = held.row(whole)
    loops = collections.Counter("loop" if one.loop else str(one.loop_note or one.reason)[:60] for one in read.calls)
    misses.sort(key=lambda one: -one["recorded_us"])
    return {"notes": planned.notes, "items": len(planned.items), **tables, "loops": dict(loops), "misses": misses}


def miss(item: Item, kernel: PlannedKernel, call: CallResult | None, replayed: KernelResult | None) -> dict[str, Any]:
    recorded = None if item.spec is None else item.spec.call
    seen = None if replayed is None or replayed.replayed is None else replayed.replayed
    return {
        "item": item.id,
        "op": None if recorded is None else recorded.op,
        "dims": None if recorded is None else recorded.input_dims,
        "strides": None if recorded is None else recorded.input_strides,
        "dtypes": None if recorded is None else recorded.input_dtypes,
        "scalars": None if recorded is None else recorded.scalars,
        "grade": None if replayed is None else replayed.grade,
        "reason": (None if replayed is None else replayed.reason) or (None if call is None else call.reason),
        "notes": () if call is None else call.notes,
        "tries": 0 if call is None else call.tries,
        "recorded": [kernel.name, kernel.grid, kernel.block, kernel.shared_bytes],
        "replayed": None if seen is None else [seen.name, seen.grid, seen.block, seen.shared_bytes],
        "extra": [] if call is None else [one.name for one in call.extra],
        "launches": kernel.launches,
        "recorded_us": round((kernel.total_ns or 0) / 1000, 1),
    }


def worst(planned: plan.Plan, read: journal.Journal, count: int = 25) -> list[dict[str, Any]]:
    """The L0 and L1 kernels whose replayed time adds most to the error of the sum."""
    rows = []
    for item, kernel, _, replayed in kernels(planned, read):
        if replayed is None or replayed.time is None or replayed.grade not in HEADLINE or not kernel.total_ns:
            continue
        error = replayed.time.median_ns * kernel.launches - kernel.total_ns
        op = item.spec.call if item.spec is not None else None
        mean = round(kernel.total_ns / kernel.launches)
        rows.append({
            "error_us": round(error / 1000, 1), "recorded_ns": mean, "replayed_ns": replayed.time.median_ns,
            "launches": kernel.launches, "op": op and op.op, "dims": op and op.input_dims, "name": kernel.name[:90],
        })  # fmt: skip
    return sorted(rows, key=lambda row: -abs(row["error_us"]))[:count]


def replay(path: Path, out: Path, cache: str, spacing: str, further: list[str]) -> float:
    """Run one plan into the journal `out`; returns the seconds it took."""
    started = time.monotonic()
    command = [sys.executable, "-m", "kerneldb.replay", str(path), "--journal", str(out)]
    with out.with_suffix(".log").open("w") as log:
        given = [*command, "--cache", cache, "--spacing", spacing, *further]
        subprocess.run(given, stderr=log, check=False)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--cache", nargs="+", default=["mixed"])
    parser.add_argument("--spacing", nargs="+", default=["idle"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit-seconds", default="300")
    given, further = parser.parse_known_args()
    further = ["--limit-seconds", given.limit_seconds, *(one for one in further if one != "--")]
    for path, cache, spacing, turn in itertools.product(given.plans, given.cache, given.spacing, range(given.repeat)):
        out = given.out / f"{path.stem}.{cache}.{spacing}.{turn}.jsonl"
        seconds = replay(path, out, cache, spacing, further)
        if not journal.exists(out):
            sys.stdout.write(f"{out.name}: no journal; {out.with_suffix('.log').read_text()[-500:]}\n")
            continue
        planned, read = plan.read(path), journal.read(out)
        found = {"seconds": round(seconds, 1), **summary(planned, read), "worst": worst(planned, read)}
        out.with_suffix(".summary.json").write_text(json.dumps(found, indent=1, default=str))
        show(out.name, found)


def show(name: str, found: dict[str, Any]) -> None:
    sys.stdout.write(f"== {name}: {found['items']} calls in {found['seconds']} s; loops {found['loops']}\n")
    for table in ("grade", "all", "category", "route"):
        for group, row in found[table].items():
            cells = "  ".join(f"{column} {value}" for column, value in row.items())
            sys.stdout.write(f"  {table:9} {group:14} {cells}\n")
    for row in found["misses"][:12]:
        names = [str(side[0])[:60] if side else None for side in (row["recorded"], row["replayed"])]
        sys.stdout.write(f"  miss {row['grade']} {row['launches']}x {row['recorded_us']} us {row['op']} {row['dims']} "
                         f"{row['reason']} {row['notes']} {names}\n")  # fmt: skip
    for row in found["worst"][:10]:
        sys.stdout.write(f"  off {row}\n")


if __name__ == "__main__":
    main()
