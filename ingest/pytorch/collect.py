"""Gathers the columns of all pieces of a trace; codes of different readers of pieces become codes of the whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import polars as pl
import pyarrow as pa

from kerneldb.ingest.pytorch.events import EXAMPLES
from kerneldb.ingest.pytorch.narrow import Chunk, Column, CounterEvent, Row, Values
from kerneldb.ingest.pytorch.values import SATURATED_US

ARROW: Final = {"q": pa.int64(), "Q": pa.uint64(), "d": pa.float64(), "I": pa.uint32()}
TIMES: Final = ("ts", "dur")


class Interner:
    """Distinct rows with codes 0, 1, … in the order in which they came."""

    def __init__(self) -> None:
        self._codes: dict[Row, int] = {}

    def add(self, rows: list[Row]) -> list[int]:
        """The codes of rows."""
        codes = self._codes
        return [codes.setdefault(row, len(codes)) for row in rows]

    def rows(self) -> list[Row]:
        """The distinct rows, in code order."""
        return list(self._codes)

    def table(self, code: str, *names: str, **others: type[pl.DataType]) -> pl.DataFrame:
        """The code as a column `code`, and what it means: text in columns `names`, then columns `others`."""
        schema = dict.fromkeys(names, pl.String) | others
        frame = pl.DataFrame(self.rows(), schema=schema, orient="row", strict=False)
        return frame.with_row_index(code)


class Collector:
    """Accumulates chunks. `add` is called in file order; `frame(group)` gives what a group holds so far."""

    def __init__(self) -> None:
        self._interners: dict[str, Interner] = defaultdict(Interner)
        self.threads = self._interners["thread"]
        self.calls = self._interners["call"]
        self.notes = self._interners["note"]
        self.kernels = self._interners["kernel"]
        self.collectives = self._interners["collective"]
        self.apis = self._interners["api"]
        self.syncs = self._interners["sync"]
        self.labels = self._interners["label"]
        self.events = 0
        self.repaired = 0
        self.lost = 0
        self.examples: list[str] = []
        self.old_categories = False
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.unread: Counter[str] = Counter()
        self.untimed: Counter[str] = Counter()
        self.marks: Counter[tuple[str, str]] = Counter()
        self.counters: list[CounterEvent] = []
        self.window_end_ns: int | None = None
        self._frames: dict[str, list[pl.DataFrame]] = {}
        self._whole: dict[tuple[int, str], list[int]] = defaultdict(list)

    def add(self, chunk: Chunk, reader: int = 0) -> None:
        """Take the events of one chunk, whose codes `reader` gave."""
        self.events += chunk.events
        self.repaired += chunk.repaired
        self.lost += chunk.lost
        self.examples += chunk.examples[: EXAMPLES - len(self.examples)]
        self.skipped.update(chunk.skipped)
        self.unread.update(chunk.unread)
        self.marks.update(chunk.marks)
        self.counters += chunk.counters
        self.old_categories |= chunk.old_categories
        ends = [end for end in (self.window_end_ns, chunk.window_end_ns) if end is not None]
        self.window_end_ns = max(ends, default=None)
        for column, rows in chunk.meanings.items():
            self._whole[reader, column] += self._interners[column].add(rows)
        for group, columns in chunk.groups.items():
            frame = pl.DataFrame([self._series(name, values, reader) for name, values in columns.items()])
            self.untimed[group] += frame["ts"].null_count()
            self._frames.setdefault(group, []).append(frame)

    def _series(self, name: str, values: Values, reader: int) -> pl.Series:
        if isinstance(values, list):
            return pl.Series(name, values, dtype=pl.String)
        series = _series(values)
        if name in TIMES:
            series = _nanoseconds(series, values.exact)
        elif name in self._interners:
            series = pl.Series(self._whole[reader, name], dtype=pl.UInt32).gather(series)
        elif values.code == "d":
            series = series.fill_nan(None)
        if values.nulls:
            series = series.scatter(_array("I", values.nulls), None)
        if name == "finished":
            said = pl.Series([row != ("false",) for row in self._interners[name].rows()], dtype=pl.Boolean)
            series = said.gather(series)
        return series.alias(name)

    def frame(self, group: str) -> pl.DataFrame | None:
        """All rows of `group` in file order with their position `order`, or None where there is none."""
        frames = self._frames.pop(group, None)
        if frames is None:
            return None
        return pl.concat(frames, how="diagonal", rechunk=True).with_row_index("order")


def _array(code: str, data: bytes) -> pl.Series:
    buffer = pa.py_buffer(data)
    kind = ARROW[code]
    series: Any = pl.from_arrow(pa.Array.from_buffers(kind, len(data) // (kind.bit_width // 8), [None, buffer]))
    return series  # type: ignore[no-any-return]


def _series(column: Column) -> pl.Series:
    return _array(column.code, column.data)


def _nanoseconds(micros: pl.Series, exact: list[tuple[int, int | None]]) -> pl.Series:
    """Microseconds to integer ns.

    The whole part is split off first: below 2^43 µs the fraction then keeps three exact digits. Later times are in
    `exact`: their places, and ns.
    """
    kept = micros.fill_nan(None).clip(-SATURATED_US, SATURATED_US)
    floor = kept.floor()
    found = floor.cast(pl.Int64) * 1000 + ((kept - floor) * 1000).round().cast(pl.Int64)
    if exact:
        places, times = zip(*exact, strict=True)
        found = found.scatter(list(places), pl.Series(times, dtype=pl.Int64))
    return found
