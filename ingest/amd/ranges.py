"""roctx ranges: nesting, paths, and which one encloses a moment on a thread.

A thread's ranges (push and pop) nest. Ranges of a process (start and stop) may overlap in any way and hold for all its
threads; inside them, those of the thread count.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import polars as pl

from kerneldb import times

RANGE: Final = "roctx"
MARK: Final = "roctx_mark"
COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    "range_id": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "process": pl.String,
    "thread": pl.String,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "parent_id": pl.Int64,
    "depth": pl.Int32,
    "path": pl.String,
    "phase": pl.String,
    "external_id": pl.Int64,
    "part": pl.String,
}

Key = tuple[str | None, str | None]
"""Process and thread; thread None for ranges of the whole process."""


@dataclasses.dataclass(slots=True)
class Marker:
    """A roctx range, or a mark where both times are equal.

    `external_id` is what the profiler calls it in launches of the same `part` (see `Host`).
    """

    process: str | None
    thread: str | None
    name: str
    start_ns: int
    end_ns: int
    external_id: int | None = None
    part: str = ""

    @property
    def closed_ns(self) -> int:
        """The end of what may enclose something: the start where the duration is refused."""
        return self.end_ns if 0 <= self.end_ns - self.start_ns <= times.LONGEST_NS else self.start_ns


class Ranges:
    """All ranges of a trace, numbered in order of time."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        ordered = sorted(markers, key=lambda one: (one.start_ns, -one.closed_ns))
        self._markers = ordered
        self._segments = _segments(ordered)
        self._rows = list(self._numbered())

    def frame(self) -> pl.DataFrame:
        """Rows of `ranges` without trace_id, and beside them `phase` (the outermost range), `external_id`, `part`."""
        return pl.DataFrame(self._rows, schema=COLUMNS)

    def around(self, frame: pl.DataFrame, at: str) -> pl.Series:
        """`range_id` of the innermost range around the time `at` (in ns) of each row's process and thread."""
        if not self._rows:
            return pl.repeat(None, frame.height, dtype=pl.Int64, eager=True).alias("range_id")
        asked = frame.select("process", "thread", at=pl.col(at)).with_row_index("row")
        own = _looked_up(asked, self._segments, ["process", "thread"])
        shared = _looked_up(asked.with_columns(thread=pl.lit(None, dtype=pl.String)), self._segments, ["process"])
        return pl.select(pl.coalesce(own, shared).alias("range_id")).to_series()

    def _numbered(self) -> Iterator[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for number, (marker, parent) in enumerate(zip(self._markers, _parents(self._markers), strict=True)):
            above = None if parent is None else made[parent]
            made.append(_row(number, marker, above))
        yield from made


def _row(number: int, marker: Marker, above: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "range_id": number,
        "kind": MARK if marker.end_ns == marker.start_ns else RANGE,
        "name": marker.name,
        "process": marker.process,
        "thread": marker.thread,
        "start_ns": times.fitting(marker.start_ns),
        "duration_ns": times.fitting(marker.end_ns - marker.start_ns),
        "parent_id": None if above is None else above["range_id"],
        "depth": 0 if above is None else above["depth"] + 1,
        "path": marker.name if above is None else f"{above['path']}/{marker.name}",
        "phase": marker.name if above is None else above["phase"],
        "external_id": marker.external_id,
        "part": marker.part,
    }


def _parents(markers: list[Marker]) -> Iterator[int | None]:
    """For each marker, in order of start, the innermost one around it: of its thread, else of its process."""
    open_ones: dict[Key, list[int]] = defaultdict(list)
    for number, marker in enumerate(markers):
        keys: list[Key] = [(marker.process, marker.thread), (marker.process, None)]
        found = None
        for key in dict.fromkeys(keys):
            stack = open_ones[key]
            stack[:] = [one for one in stack if markers[one].closed_ns > marker.start_ns]
            around = (one for one in reversed(stack) if markers[one].closed_ns >= marker.closed_ns)
            found = next(around, None) if found is None else found
        yield found
        if marker.closed_ns > marker.start_ns:
            open_ones[marker.process, marker.thread].append(number)


def _segments(markers: list[Marker]) -> pl.DataFrame:
    """(process, thread, at, range_id): from `at` on, the range that began last and is still open; NULL for none."""
    by_key: dict[Key, list[int]] = defaultdict(list)
    for number, marker in enumerate(markers):
        if marker.closed_ns > marker.start_ns:
            by_key[marker.process, marker.thread].append(number)
    rows = [
        (process, thread, at, number)
        for (process, thread), numbers in by_key.items()
        for at, number in _steps(markers, numbers)
    ]
    schema = {"process": pl.String, "thread": pl.String, "at": pl.Int64, "number": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("at", maintain_order=True)


def _steps(markers: list[Marker], numbers: list[int]) -> Iterator[tuple[int, int | None]]:
    ends: list[tuple[int, int]] = []
    stack: list[int] = []
    gone: set[int] = set()
    for number in numbers:
        yield from _ended(ends, stack, gone, markers[number].start_ns)
        stack.append(number)
        heapq.heappush(ends, (markers[number].closed_ns, number))
        yield markers[number].start_ns, number
    yield from _ended(ends, stack, gone, None)


def _ended(
    ends: list[tuple[int, int]], stack: list[int], gone: set[int], until: int | None
) -> Iterator[tuple[int, int | None]]:
    while ends and (until is None or ends[0][0] <= until):
        at, number = heapq.heappop(ends)
        gone.add(number)
        while stack and stack[-1] in gone:
            gone.discard(stack.pop())
        yield at, stack[-1] if stack else None


def _looked_up(asked: pl.DataFrame, segments: pl.DataFrame, by: list[str]) -> pl.Series:
    shared = by == ["process"]
    mine = segments.filter(pl.col("thread").is_null() if shared else pl.col("thread").is_not_null())
    if mine.is_empty():
        return pl.repeat(None, asked.height, dtype=pl.Int64, eager=True)
    ordered = asked.with_columns(pl.col(by).fill_null("")).sort("at")
    steps = mine.with_columns(pl.col(by).fill_null("")).select(*by, "at", "number")
    found = ordered.join_asof(steps, on="at", by=by, strategy="backward", check_sortedness=False)
    return found.sort("row")["number"]
