"""Where the time of an ingest goes: seconds of each stage, how many processors it kept busy, and what it waited for.

    python benchmarks/ingest_stages.py TRACE.json.gz --megabytes 2048 --cores 2 --cores 16

Each trace is grown first (see grow_trace.py). A stage that keeps one processor busy on sixteen is what limits them. The
functions below it run on threads of their own: their seconds overlap, and those of one thread add up to no more than
the stage, so one that nearly does holds up the others.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grow_trace import grow

STAGES = (
    "kerneldb.ingest.pytorch.convert:parse",
    "kerneldb.ingest.pytorch.launches:Activities.__init__",
    "kerneldb.ingest.pytorch.convert:_write_launches",
    "kerneldb.ingest.output:Output.finish",
    "kerneldb.api.ingestion:derived",
    "kerneldb.warehouse.commit:commit",
)
"""What begins or ends a stage; between two of them is one that has no name."""
FUNCTIONS = (
    "kerneldb.ingest.pytorch.native:Scan.narrow",
    "kerneldb.ingest.pytorch.collect:Collector.add",
    "kerneldb.ingest.pytorch.collect:Collector._store",
    "kerneldb.ingest.pytorch.collect:Collector._wait",
    "kerneldb.ingest.pytorch.host:_Linker._spans",
    "kerneldb.ingest.pytorch.host:_Linker.linked",
    "kerneldb.ingest.pytorch.host:_Linker.ordered",
    "kerneldb.ingest.pytorch.callers:Callers.add",
    "kerneldb.ingest.pytorch.callers:Callers._meet",
    "kerneldb.ingest.pytorch.launches:Activities._annotated",
    "kerneldb.ingest.pytorch.launches:LaunchRows._called",
    "kerneldb.ingest.pytorch.launches:LaunchRows._signed",
    "kerneldb.ingest.pytorch.launches:LaunchRows._rows",
    "kerneldb.ingest.pytorch.tables:op_rows",
    "kerneldb.ingest.pytorch.tables:api_rows",
    "kerneldb.ingest.runs:Runs.between",
    "kerneldb.ingest.runs:Runs.put_away",
    "kerneldb.batch:write_part",
    "kerneldb.batch:Spool.write",
    "kerneldb.batch:Spool._settle",
)
BLOCKS = "kerneldb.warehouse.commit:statement"
Mark = tuple[str, float, float]


class Watch:
    """Notes when stages begin and end, and how long the calls of functions took, by thread."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.calls: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._block = "before SQL"
        self.mark("start")

    def mark(self, name: str) -> None:
        """A stage ends here."""
        self.marks.append((name, time.perf_counter(), time.process_time()))

    def stage(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work`, which is a stage."""

        @functools.wraps(work)
        def watched(*given: Any, **named: Any) -> Any:
            self.mark(f"before {name}")
            try:
                return work(*given, **named)
            finally:
                self.mark(name)

        return watched

    def function(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """`work`, whose seconds are added up."""

        @functools.wraps(work)
        def watched(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                self.calls[name][threading.get_ident()].append(time.perf_counter() - began)

        return watched

    def block(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """What gives the statements of a commit: a stage ends where the next one is asked for."""

        @functools.wraps(work)
        def watched(file: str, name: str) -> Any:
            self.mark(self._block)
            self._block = f"SQL {name}"
            return work(file, name)

        return watched


def replace(place: str, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put `wrap(name, function)` where the function of `module:name` is."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    setattr(owner, name, wrap(path, getattr(owner, name)))


def ingest(trace: str, database: str) -> None:
    """Ingest in this process and print what was watched. Modules are loaded before the first stage."""
    watch = Watch()
    for place in STAGES:
        replace(place, watch.stage)
    for place in FUNCTIONS:
        replace(place, watch.function)
    replace(BLOCKS, lambda _, work: watch.block(work))
    watch.mark("imports")
    from kerneldb.cli import cli

    cli(["--db", database, "ingest", trace, "-q"], standalone_mode=False)
    watch.mark("end")
    report(watch)


def report(watch: Watch) -> None:
    """Print stages of 20 ms and more, then the functions, on stdout."""
    print(f"{'stage':36} {'s':>7} {'cpu s':>7} {'busy':>5}")
    for (_, began, used), (name, ended, then) in zip(watch.marks, watch.marks[1:], strict=False):
        if ended - began >= 0.02:
            busy = (then - used) / (ended - began)
            print(f"{name:36} {ended - began:7.2f} {then - used:7.2f} {busy:5.1f}")
    (_, began, used), (_, ended, then) = watch.marks[0], watch.marks[-1]
    print(f"{'all':36} {ended - began:7.2f} {then - used:7.2f} {(then - used) / (ended - began):5.1f}")
    print(f"{'function':36} {'calls':>7} {'threads':>7} {'s':>7} {'most on a thread':>17}")
    for name, threads in watch.calls.items():
        sums, n = [sum(seconds) for seconds in threads.values()], sum(map(len, threads.values()))
        print(f"{name:36} {n:7} {len(sums):7} {sum(sums):7.2f} {max(sums):17.2f}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="TRACE")
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--cores", type=int, action="append", help="use so many; may be given again")
    parser.add_argument("--ingest", metavar="DATABASE", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ingest:
        return ingest(str(chosen.source), chosen.ingest)
    available = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="kerneldb-bench-") as folder:
        trace = Path(folder, "trace.json")
        grow(chosen.source, trace, chosen.megabytes)
        for cores in chosen.cores or [len(available)]:
            os.sched_setaffinity(0, available[:cores])
            print(f"{chosen.source.name}: {trace.stat().st_size / 1e6:,.0f} MB, {cores} cores", flush=True)
            database = Path(folder, "bench.duckdb")
            database.unlink(missing_ok=True)
            subprocess.run([sys.executable, __file__, str(trace), "--ingest", str(database)], check=True)
    return None


if __name__ == "__main__":
    main()
