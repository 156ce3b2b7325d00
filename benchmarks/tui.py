"""The terminal interface on 5,000,000 launches: times until the screen shows what was asked for, and peak memory.

    python benchmarks/tui.py [DATABASE] [--json benchmarks/results/DATE-tui.json]

The database is one of `generate_warehouse.py --traces 8 --launches 625000`, made in a temporary folder where none is
given. The real application runs without a terminal (Textual's test driver) and gets keys. Every repeat is a process of
its own; its times are wall times from the key to the screen at rest, of `first paint` from the start of the process.
The best of all repeats stands beside its processor time, which other work on the machine changes little, beside a bar,
which holds for an idle machine of 2 cores, and beside a floor: one grouping scan of the same launches by DuckDB alone,
in the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldb.cli.process import COLLECTED_AT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import App
    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp

TRACES = 8
LAUNCHES = 625_000
SIZE = (160, 48)
FILTER = "category = 'GEMM' AND duration_ns > 5000"
FLOOR = """
SELECT trace_id, device, stream, count(*), sum(end_ns - start_ns)
FROM launches WHERE timing = 'timeline' GROUP BY ALL
"""
BARS = {
    "first paint": 1.0,
    "first data": None,
    "kernels": None,
    "launches": None,
    "page down": 0.15,
    "jump to the end": 0.15,
    "page up": 0.15,
    "jump to the begin": 0.15,
    "filter": 0.5,
    "timeline of everything": 0.3,
    "timeline after a rest": 0.3,
    "zoom": 0.15,
    "pan": 0.15,
    "next launch": 0.15,
}
"""Seconds that hold on an idle machine of 2 cores; None: no bar."""
MEMORY_BAR_MB = 400
POLL_S = 0.01
REST_S = 2.0
"""Nobody presses a key for so long: what takes longest is asked for then, without being asked to."""


@dataclasses.dataclass
class Watch:
    """Wall and processor seconds by what was done."""

    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    processor: dict[str, float] = dataclasses.field(default_factory=dict)

    async def time(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Note how long `work` takes."""
        began, worked = time.perf_counter(), time.process_time()
        await work()
        self.note(what, time.perf_counter() - began, time.process_time() - worked)

    def note(self, what: str, seconds: float, processor: float) -> None:
        """Note the times of `what`."""
        self.seconds[what], self.processor[what] = seconds, processor


def since_start() -> float:
    """Seconds since the kernel made this process."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until no worker runs and what they changed is drawn.

    `Pilot.pause` would wait for an idle processor too, for a tenth of a second.
    """
    from textual.worker import WorkerCancelled

    app = pilot.app
    while True:
        await refreshed(app)
        with contextlib.suppress(WorkerCancelled):  # one that was superseded
            await app.workers.wait_for_complete()
        await refreshed(app)
        if all(worker.is_finished for worker in app.workers):
            return


async def refreshed(app: App[Any]) -> None:
    """Wait until what is asked for has been handled and drawn."""
    for node in (app, app.screen, app.focused or app.screen):
        handled = asyncio.Event()
        node.call_later(handled.set)
        await handled.wait()
    drawn = asyncio.Event()
    app.screen.call_after_refresh(drawn.set)
    await drawn.wait()


async def drive(path: Path) -> Watch:
    """The flow of one repeat."""
    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Choice

    watch = Watch()
    app = KerneldbApp(path, Choice(), watch=False)
    async with app.run_test(size=SIZE) as pilot:
        watch.note("first paint", since_start(), time.process_time())
        await settled(pilot)
        watch.note("first data", since_start(), time.process_time())
        await browse(app, pilot, watch)
        await look(app, pilot, watch)
    rested = KerneldbApp(path, Choice())
    async with rested.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await asyncio.sleep(REST_S)
        await watch.time("timeline after a rest", lambda: lanes(rested))
    return watch


async def browse(app: KerneldbApp, pilot: Pilot[Any], watch: Watch) -> None:
    """Lists: kernels, all launches as a table, pages and jumps in it, a filter."""

    async def show(**changes: Any) -> None:
        app.choose(**changes)
        await settled(pilot)

    await watch.time("kernels", lambda: pressed(pilot, "2"))
    await watch.time("launches", lambda: show(level="launch"))
    for what, key in (
        ("page down", "pagedown"), ("jump to the end", "end"), ("page up", "pageup"), ("jump to the begin", "home"),
    ):  # fmt: skip
        await watch.time(what, lambda key=key: pressed(pilot, key))  # type: ignore[misc]
    await watch.time("filter", lambda: show(where=FILTER))
    await show(where="", level="kernel")


async def look(app: KerneldbApp, pilot: Pilot[Any], watch: Watch) -> None:
    """The timeline of everything, until its lanes are drawn, and moves in it, until all is at rest."""
    await watch.time("timeline of everything", lambda: lanes(app))
    await settled(pilot)
    await pressed(pilot, *["right"] * 20)
    for _ in range(5):
        await pressed(pilot, "w")
    for what, key in (("zoom", "w"), ("pan", "d"), ("next launch", "full_stop")):
        await watch.time(what, lambda key=key: pressed(pilot, key))  # type: ignore[misc]


async def lanes(app: KerneldbApp) -> None:
    """Show the timeline until its lanes are drawn."""
    from kerneldb.tui.widgets.gantt import Gantt

    app.show("timeline")
    while not app.query(Gantt) or not app.query_one(Gantt).picture.rows:
        await asyncio.sleep(POLL_S)
    chart = app.query_one(Gantt)
    for line in range(chart.size.height):
        chart.render_line(line)


async def pressed(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys and wait until the screen is at rest."""
    for key in keys:
        pilot.app.simulate_key(key)
    await settled(pilot)


def floor(path: Path) -> float:
    """Seconds of the best of three grouping scans."""
    from kerneldb.warehouse import Warehouse

    found = []
    with Warehouse(path).connection() as con:
        for _ in range(3):
            began = time.perf_counter()
            con.execute(FLOOR).fetchall()
            found.append(time.perf_counter() - began)
    return min(found)


def one_run(path: Path) -> None:
    """A repeat, in this process; prints JSON."""
    gc.set_threshold(*COLLECTED_AT)  # as the command does: with Python's own, a key now and then waits for a collection
    watch = asyncio.run(drive(path))
    print(json.dumps({**dataclasses.asdict(watch), "peak_mb": peak_mb(), "floor": floor(path)}))


def peak_mb() -> float:
    """The most memory of this process. `getrusage` would count what the process held that it was started from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def repeat(path: Path, times: int) -> list[dict[str, Any]]:
    """Runs in processes of their own."""
    found = []
    # An installed program keeps its bytecode.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(times):
        command = [sys.executable, __file__, str(path), "--one"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=kept)
        line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
        found.append(json.loads(line))
    return found


def report(runs: list[dict[str, Any]], launches: int) -> dict[str, Any]:
    """Print the table and return the figures."""
    lowest = min(run["floor"] for run in runs)
    peak = max(run["peak_mb"] for run in runs)
    print(f"{launches:,} launches, {os.cpu_count()} cores, Python {platform.python_version()}, {len(runs)} runs")
    print(f"{'':24} {'best s':>7} {'median':>7} {'CPU s':>7} {'bar':>6} {'× floor':>8}")
    figures = {}
    for what, bar in BARS.items():
        times = sorted(run["seconds"][what] for run in runs)
        best, middle = times[0], times[len(times) // 2]
        worked = min(run["processor"][what] for run in runs)
        over = "" if bar is None or best <= bar else "  over the bar"
        print(f"{what:24} {best:7.3f} {middle:7.3f} {worked:7.3f} {bar or '':>6} {best / lowest:8.2f}{over}")
        figures[what] = {"best": best, "median": middle, "cpu": worked, "bar": bar}
    over = "" if peak <= MEMORY_BAR_MB else "  over the bar"
    print(f"{'peak memory, MB':24} {peak:7.0f} {'':15} {MEMORY_BAR_MB:6}{over}")
    print(f"{'floor: a grouping scan':24} {lowest:7.3f}")
    load = os.getloadavg()
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": load}
    return {"launches": launches, "seconds": figures, "peak_mb": peak, "floor_s": lowest, **machine}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path, nargs="?")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.database and not chosen.database.is_file():
        parser.error(f"{chosen.database} does not exist")
    if chosen.one:
        one_run(chosen.database)
        return
    with tempfile.TemporaryDirectory(prefix="kerneldb-bench-") as folder:
        path = chosen.database or made(Path(folder) / "big.duckdb")
        figures = report(repeat(path, chosen.repeats), counted(path))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def made(path: Path) -> Path:
    """A new database of the size that the bars are for."""
    from generate_warehouse import generate

    generate(path, TRACES, LAUNCHES)
    return path


def counted(path: Path) -> int:
    """How many launches the database holds."""
    from kerneldb.warehouse import Warehouse

    with Warehouse.open(path).connection() as con:
        ((found,),) = con.execute("SELECT count(*) FROM launches").fetchall()
    return int(found)


if __name__ == "__main__":
    main()
