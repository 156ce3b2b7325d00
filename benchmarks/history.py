"""What the search of a history finds, and what it costs: python benchmarks/history.py [DATABASE] [--runs N].

Run it with PYTHONPATH=. from the top of the repository. Histories are made of thirty real nights
(tests/answers/nightly.py). First many of 400 nights, in memory: false alarms among their lines (kernels, operators,
causes of wall time, total), and how many changes of 2 % of one kernel, planted in each, are found. Then one of `--runs`
runs of 100,000 launches, stored as sums in DATABASE (a file that is made, or a lake that is there): a change of 2 % in
each kernel in turn; time of the search, of one more run, and of asking.
"""

from __future__ import annotations

import argparse
import collections
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import kerneldb
from kerneldb.history import search
from kerneldb.warehouse import Warehouse, history
from tests.answers.nightly import Nightly

if TYPE_CHECKING:
    from collections.abc import Callable

SUBJECTS = ("kernel", "operator", "budget", "total")
NIGHTS = 400
ROOM = 20
"""Nights on either side of a planted change."""
NEAR = 3
LAUNCHES = 75
"""Times 1,336 launches of a recorded night."""
SECONDS = "UPDATE history_runs SET scanned = NULL WHERE trace_id = (SELECT max(trace_id) FROM history_runs)"


def rates(histories: int) -> None:
    """False alarms, and changes that are found, over histories of 400 nights."""
    alarms, lines, found, missed = 0, 0, 0, collections.Counter[str]()
    for seed in range(histories):
        nights = Nightly(NIGHTS, seed, SUBJECTS)
        alarms += len(search.changes(*nights.searched(), NIGHTS))
        lines += len(nights.values)
        name = nights.kernels()[seed % len(nights.kernels())]
        at = ROOM + int(np.random.default_rng(seed).integers(NIGHTS - 2 * ROOM))
        nights.slow(name, at, 1.02)
        told = [one for one in search.changes(*nights.searched(), NIGHTS) if one.name == name]
        if any(abs(int(one.trace_id) - at) <= NEAR or one.low_pct <= 2 <= one.high_pct for one in told):
            found += 1
        else:
            missed[name] += 1
    print(f"{histories} histories of {NIGHTS} nights: {alarms} false alarms in {lines:,} lines")
    print(f"found: {found} of {histories}; missed: {dict(missed)}")


def at_scale(place: str, runs: int) -> None:
    """One long history with a change in each kernel."""
    nights = Nightly(runs, 1, SUBJECTS, launches=LAUNCHES)
    names = nights.kernels()
    planted = {name: runs * (number + 1) // (len(names) + 1) for number, name in enumerate(names)}
    for name, at in planted.items():
        nights.slow(name, at, 1.02)
    lake = place.startswith("ducklake:")
    warehouse = kerneldb.open(place).warehouse if lake else Warehouse.create_or_open(place)
    timed(f"{runs:,} runs of {100_000 * runs / 1e9:g} * 10^9 launches stored", lambda: nights.store(warehouse))
    timed("searched", lambda: history.update(warehouse))
    rows = kerneldb.open(place).history().changes.to_pylist()
    own = [row for row in rows if row["name"] in planted and row["subject"] == "kernel"]
    near = [row for row in own if abs(int(row["trace_id"].partition(":")[2]) - planted[row["name"]]) <= NEAR]
    found = {row["name"] for row in near}
    print(f"found {len(found)} of {len(planted)} within {NEAR} runs; other changes: {len(rows) - len(near)}")
    for row in rows:
        if row not in near:
            print(
                "  ",
                row["subject"],
                row["name"],
                row["trace_id"],
                f"{row['change_pct']:+.2f} %",
                planted.get(row["name"]),
            )
    warehouse.query(SECONDS, write=True)
    timed("one more run searched", lambda: history.update(warehouse))
    for _ in range(3):
        timed("asked", lambda: kerneldb.open(place).history("nightly"))
        timed("asked with a gate", lambda: gate(place))


def gate(place: str) -> Any:
    """Ask as CI does."""
    try:
        return kerneldb.open(place).history("nightly", branch="main").check(5)
    except kerneldb.errors.GateError as error:
        return error


def timed(what: str, work: Callable[[], Any]) -> None:
    """Do it, and say how long it took: wall time, and processor time of this process."""
    began, used = time.perf_counter(), os.times()
    work()
    now = os.times()
    processor = now.user + now.system - used.user - used.system
    print(f"{what}: {time.perf_counter() - began:.2f} s, {processor:.2f} s of processor", flush=True)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database", nargs="?", help="file to make, or ducklake:…")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--histories", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.histories:
        rates(arguments.histories)
    if arguments.database is not None:
        at_scale(arguments.database, arguments.runs)


if __name__ == "__main__":
    main()
