"""What the n-th of many small traces costs: the command `kerneldb ingest`, and a commit of one long call.

    python benchmarks/many_traces.py TRACE.json.gz --traces 10000 [--ranks 8] [--json benchmarks/results/DATE-many.json]

The trace is copied, each copy a second later than the one before and with a name of its own in it, as a service or a
test suite would record them; with `--ranks`, so many after each other are a job that starts at one time. At 0, 100,
1,000 and so on traces, ten commands are measured, each a process of its own: wall and processor seconds. The others
are read by one call of the library.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME = re.compile(r'("ts": )(\d+)(?=[.,])')
KERNEL = re.compile(r'("cat": "kernel", "name": ")([^"(<]*)')
HEAD = '"schemaVersion": 1,'
MEASURED = 10
SPREAD_US = 1_000_000


def copy(text: str, number: int, ranks: int) -> str:
    """The same trace, later, as one rank of a job, and with another name for its first kernel."""
    by, rank = number // ranks * SPREAD_US, number % ranks
    moved = TIME.sub(lambda m: f"{m[1]}{int(m[2]) + by + rank}", text)
    named = KERNEL.sub(lambda m: f"{m[1]}{m[2]}_{number}", moved, count=1)
    if ranks == 1:
        return named
    return named.replace(HEAD, f'{HEAD} "distributedInfo": {{"rank": {rank}, "world_size": {ranks}}},', 1)


def command(database: Path, path: Path) -> tuple[float, float]:
    """Wall and processor seconds of one `kerneldb ingest`."""
    before, began = os.times(), time.perf_counter()
    call = [sys.executable, "-m", "kerneldb", "--db", str(database), "ingest", "-q", str(path)]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def measured(database: Path, paths: Sequence[Path]) -> dict[str, float]:
    """The best and the median of some commands."""
    walls, processors = zip(*(command(database, path) for path in paths), strict=True)
    return {
        "wall_best_s": round(min(walls), 3),
        "wall_median_s": round(statistics.median(walls), 3),
        "processor_best_s": round(min(processors), 3),
        "processor_median_s": round(statistics.median(processors), 3),
    }


def fill(database: Path, paths: Sequence[Path]) -> float:
    """Seconds per trace of one call for all."""
    import kerneldb

    began = time.perf_counter()
    kerneldb.open(database).ingest(paths)
    return round((time.perf_counter() - began) / len(paths), 4)


def measure(trace: Path, count: int, ranks: int, folder: Path) -> list[dict[str, object]]:
    """A row per number of traces."""
    text = gzip.decompress(trace.read_bytes()).decode() if trace.suffix == ".gz" else trace.read_text()
    paths = []
    for number in range(count + MEASURED):
        paths.append(folder / f"{number:06d}.json")
        paths[-1].write_text(copy(text, number, ranks))
    database, there, found = folder / "many.duckdb", 0, list[dict[str, object]]()
    stops = [0, *(stop for stop in (100, 1_000, 3_000, 10_000, 30_000) if stop < count), count]
    for stop in stops:
        row: dict[str, object] = {"traces": stop}
        if stop > there:
            row["batch_s_per_trace"] = fill(database, paths[there:stop])
        row |= measured(database, paths[stop : stop + MEASURED])
        row["megabytes"] = round(database.stat().st_size / 1e6, 1)
        there = stop + MEASURED
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kerneldb-many-") as name:
        found = measure(given.trace, given.traces, given.ranks, Path(name))
    if given.json is not None:
        given.json.write_text(json.dumps({"ranks": given.ranks, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
