"""Marks the iterations of short traces by the names of their kernels.

For a few launches DuckDB takes 60 ms of processor to plan and run `_period_launches`, and this takes a tenth of that,
and most traces are short while people try things out. The macro is the reference: it marks long traces, and those with
times that floating-point numbers do not hold, and answers for any selection.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
from typing import TYPE_CHECKING, Final

from kerneldb.schemas.loader import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    Connection = duckdb.DuckDBPyConnection

MOST: Final = 1_000
"""Launches of a trace that is short."""
EXACT_NS: Final = 1 << 50
"""Times below this, and halves of them, are exact as floating-point numbers."""
DISTANCES: Final = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a timeline, as _period_launches reads it."""

    device: int | None
    kind: str
    name_id: str | None
    launch_index: int
    start_ns: int
    end_ns: int
    duration_ns: int
    iteration: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Kernels `first` to `last` of a device, which repeat at a distance; `length` of them have the one before."""

    distance: int
    first: int
    last: int
    length: int
    total_ns: int
    kernels: int

    @property
    def reaches_end(self) -> bool:
        """Whether less than a repeat follows."""
        return self.kernels - 1 - self.last < self.distance

    def covers(self, percent: int) -> bool:
        """Whether so much of the kernels repeats."""
        return 100 * (self.length + self.distance) >= percent * self.kernels


def mark(con: Connection, trace_id: str) -> bool:
    """Mark the launches of devices without steps; whether it was done, which times that are not known prevent."""
    rows = con.execute(statement("commit", "unmarked"), {"trace_id": trace_id}).fetchall()
    found = marks([Launch(*row) for row in rows])
    if found:
        columns = ("launch_index", "iteration", "steady_state")
        values = dict(zip(columns, map(list, zip(*found, strict=True)), strict=True))
        con.execute(statement("commit", "mark"), {"trace_id": trace_id, **values})
    return found is not None


def marks(launches: Sequence[Launch]) -> list[tuple[int, int | None, bool | None]] | None:
    """(launch_index, iteration, steady_state) for places without steps that repeat; None where times are not exact.

    `launches` are those of one trace, in the order of time.
    """
    if not _is_exact(launches):
        return None
    places = collections.defaultdict[int, list[Launch]](list)
    for one in launches:
        places[-1 if one.device is None else one.device].append(one)
    unmarked = [some for some in places.values() if all(one.iteration is None for one in some)]
    return [mark for some in unmarked for mark in _marks(some)]


def _is_exact(launches: Sequence[Launch]) -> bool:
    noted: Sequence[int | None] = [time for one in launches for time in (one.end_ns, one.duration_ns)]
    if None in noted:
        return False
    times = [time for one in launches for time in (one.start_ns, one.end_ns)]
    lasted = sum(one.duration_ns for one in launches)
    return not times or max(max(times) - min(times), lasted) < EXACT_NS


def _marks(launches: Sequence[Launch]) -> Iterator[tuple[int, int | None, bool | None]]:
    """The marks of the launches of a place; none where no kernels repeat. Copies go with the kernel before them."""
    kernels = [one for one in launches if one.kind == "kernel"]
    run = _period(kernels)
    if run is None:
        return
    iterations = _numbered(kernels, run)
    steady = _steady(kernels, iterations, run)
    placed = dict(zip((one.launch_index for one in kernels), iterations, strict=False))
    for _, some in itertools.groupby(sorted(launches, key=lambda one: one.device is None), lambda one: one.device):
        now = None
        for one in some:
            if one.kind == "kernel":
                now = placed.get(one.launch_index)
            yield one.launch_index, *((now, steady[now]) if now in steady else (None, False))


def _period(kernels: Sequence[Launch]) -> Run | None:
    """As _kernel_periods: a run of repeats that matters and goes on to the end, else the longest one."""
    found = [run for distance in _distances(kernels) for run in _runs(kernels, distance)]
    total_ns = sum(one.duration_ns for one in kernels)

    def is_last(run: Run) -> bool:
        is_large = run.covers(10) or 10 * run.total_ns >= total_ns > 0
        return run.reaches_end and is_large and run.length >= 2 * run.distance

    longest = {last: max((run.length for run in found if is_last(run) == last), default=0) for last in (True, False)}
    good = [
        run
        for run in found
        for most in (longest[is_last(run)],)
        if run.length >= most - 2 * run.distance and 2 * run.length > most
    ]
    return min(good, key=lambda run: (not is_last(run), run.distance, -run.length, run.first), default=None)


def _distances(kernels: Sequence[Launch]) -> list[int]:
    """The distances between equal names that explain most launches."""
    seen: dict[str, int] = {}
    explained = collections.Counter[int]()
    for place, one in enumerate(kernels):
        if one.name_id is not None:
            if one.name_id in seen:
                distance = place - seen[one.name_id]
                explained[distance] += distance
            seen[one.name_id] = place
    return sorted(explained, key=lambda distance: (-explained[distance], distance))[:DISTANCES]


def _runs(kernels: Sequence[Launch], distance: int) -> Iterator[Run]:
    """As _repeat_streaks and _kernel_periods: runs of kernels of which no more than one in ten in a row differ."""
    names = [one.name_id for one in kernels]
    same = [place for place in range(distance, len(names)) if names[place] and names[place] == names[place - distance]]
    start = 0
    for end in range(1, len(same) + 1):
        if end == len(same) or same[end] - same[end - 1] > 1 + distance // 10:
            part = same[start:end]
            if len(part) >= distance:
                total_ns = sum(kernels[place].duration_ns for place in part)
                yield Run(distance, part[0] - distance, part[-1], len(part), total_ns, len(kernels))
            start = end


def _numbered(kernels: Sequence[Launch], run: Run) -> list[int | None]:
    """The iteration of each kernel to the end of the run. One begins behind the pause that is longest in the middle."""
    pauses = collections.defaultdict[int, list[int]](list)
    for place in range(max(run.first, 1), run.last + 1):
        pauses[(place - run.first) % run.distance].append(kernels[place].start_ns - kernels[place - 1].end_ns)
    origin = max(pauses, key=lambda one: (statistics.median(pauses[one]), -one))
    begin = run.first + origin
    return [(place - begin) // run.distance if place >= begin else None for place in range(run.last + 1)]


def _steady(kernels: Sequence[Launch], iterations: Sequence[int | None], run: Run) -> dict[int | None, bool | None]:
    """The iterations that are whole, and whether each takes no more than 1.5 times the median."""
    spent = collections.defaultdict[int, list[int]](list)
    for one, iteration in zip(kernels, iterations, strict=False):
        if iteration is not None:
            spent[iteration].append(one.duration_ns)
    whole = {iteration: sum(times) for iteration, times in spent.items() if len(times) == run.distance}
    typical = statistics.median(whole.values()) if whole else 0
    is_sure = run.reaches_end or run.covers(80)
    return {iteration: ns <= 1.5 * typical if is_sure else None for iteration, ns in whole.items()}
