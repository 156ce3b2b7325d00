"""Gathers the columns of all pieces of a trace; codes of different readers of pieces become codes of the whole."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from typing import Final

import polars as pl

from kerneldb.ingest.pytorch.events import EXAMPLES
from kerneldb.ingest.pytorch.narrow import Chunk, CounterEvent, Row, Values
from kerneldb.ingest.pytorch.values import SATURATED_US

DTYPES: Final = {"q": pl.Int64, "Q": pl.UInt64, "d": pl.Float64, "I": pl.UInt32}
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
    """Accumulates chunks. `add` is called in file order.

    `frame(group)` takes what a group holds, and then counts in `untimed` the events without a time.
    """

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
        self._frames: dict[str, list[pl.DataFrame]] = defaultdict(list)
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
            self._take(group, columns, reader)

    def _take(self, group: str, columns: dict[str, Values], reader: int) -> None:
        taken = []
        for name, values in columns.items():
            if isinstance(values, list):
                taken.append(pl.Series(name, values, dtype=pl.String))
                continue
            series = _array(values.code, values.data)
            if name in self._interners:
                series = pl.Series(self._whole[reader, name], dtype=pl.UInt32).gather(series)
            if values.nulls:
                series = series.scatter(_array("I", values.nulls), None)
            taken.append(series.alias(name))
        self._frames[group].append(pl.DataFrame(taken))

    def frame(self, group: str) -> pl.DataFrame | None:
        """All rows of `group` in file order with their position `order`, or None where there is none."""
        frames = self._frames.pop(group, None)
        if frames is None:
            return None
        frame = pl.concat(frames, how="diagonal", rechunk=True)
        floats = [name for name, kind in frame.schema.items() if kind == pl.Float64]
        frame = frame.with_columns(pl.col(floats).fill_nan(None))
        times = [_nanoseconds(pl.col(name)) for name in TIMES if name in frame.columns]
        frame = frame.with_columns(times)
        if "ts_ns" in frame.columns:
            known = [name for name in ("ts", "ts_ns") if name in frame.columns]
            frame = frame.with_columns(ts=pl.coalesce(known)).drop("ts_ns")
        if "finished" in frame.columns:
            said = pl.Series([row != ("false",) for row in self._interners["finished"].rows()], dtype=pl.Boolean)
            frame = frame.with_columns(finished=said.gather(frame["finished"]))
        self.untimed[group] += frame["ts"].null_count()
        return frame.with_row_index("order")


def _array(code: str, data: bytes) -> pl.Series:
    values = array(code)
    values.frombytes(data)
    return pl.Series(values=values, dtype=DTYPES[code])


def _nanoseconds(micros: pl.Expr) -> pl.Expr:
    """Microseconds to integer ns.

    The whole part is split off first: below 2^43 µs the fraction then keeps three exact digits.
    """
    kept = micros.clip(-SATURATED_US, SATURATED_US)
    return kept.floor().cast(pl.Int64) * 1000 + ((kept - kept.floor()) * 1000).round().cast(pl.Int64)
