"""Gathers the columns of all pieces of a trace; codes of different readers of pieces become codes of the whole."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, cast

import polars as pl

from kerneldb.ingest.pytorch import fields, native
from kerneldb.ingest.pytorch.events import EXAMPLES
from kerneldb.ingest.pytorch.narrow import Chunk, Column, CounterEvent, Row, Values
from kerneldb.ingest.pytorch.values import SATURATED_US
from kerneldb.ingest.runs import Runs, Shelf

DTYPES: Final = {"q": pl.Int64, "Q": pl.UInt64, "d": pl.Float64, "I": pl.UInt32}
WIDTHS: Final = {code: array(code).itemsize for code in DTYPES}
TIMES: Final = ("ts", "dur")
KEYS: Final = dict.fromkeys(fields.INTERNED, "ts") | {"gpu": "correlation"}
"""Group → the column in whose order its rows are wanted."""
COUNTERS: Final = {"name": pl.String, "process": pl.String, "ts_ns": pl.Int64, "args": pl.String}
MANY_EVENTS: Final = 1 << 18
"""So many are made into columns at once."""


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


class Part(NamedTuple):
    """Columns of one group from one piece, whose codes `reader` gave."""

    reader: int
    rows: int
    columns: Mapping[str, Values]


class Collector:
    """Accumulates chunks: `add` is called in file order, `settle` after the last one.

    `rows` has the events of each group: with their position `id`, codes that the interners explain, and times in ns.
    `untimed` counts those without a time. Long traces go into files of `scratch`, until it is closed.
    """

    def __init__(self, scratch: Path | None = None) -> None:
        self._interners: dict[str, Interner] = defaultdict(Interner)
        self.threads = self._interners["thread"]
        self.calls = self._interners["call"]
        self.notes = self._interners["note"]
        self.kernels = self._interners["kernel"]
        self.collectives = self._interners["collective"]
        self.said = self._interners["mark"]
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
        self.window_end_ns: int | None = None
        self.shelf = Shelf(scratch)
        self.rows: dict[str, Runs] = {group: self.shelf.runs(key) for group, key in KEYS.items()}
        self.counters = self.shelf.runs("ts_ns")
        self._parts: dict[str, list[Part]] = defaultdict(list)
        self._counted: list[CounterEvent] = []
        self._waiting = 0
        self._whole: dict[tuple[int, str], array[int]] = defaultdict(lambda: array("I"))
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="kerneldb-collector")
        self._work: Future[None] | None = None

    def add(self, chunk: Chunk, reader: int = 0) -> None:
        """Take the events of one chunk, whose codes `reader` gave."""
        self.events += chunk.events
        self.repaired += chunk.repaired
        self.lost += chunk.lost
        self.examples += chunk.examples[: EXAMPLES - len(self.examples)]
        self.skipped.update(chunk.skipped)
        self.unread.update(chunk.unread)
        self.marks.update(chunk.marks)
        self._counted += chunk.counters
        self.old_categories |= chunk.old_categories
        ends = [end for end in (self.window_end_ns, chunk.window_end_ns) if end is not None]
        self.window_end_ns = max(ends, default=None)
        for column, rows in chunk.meanings.items():
            self._whole[reader, column].extend(self._interners[column].add(rows))
        for group, columns in chunk.groups.items():
            time = cast("Column", columns.get("ts") or columns["ts_ns"])
            self._parts[group].append(Part(reader, len(time.data) // WIDTHS[time.code], columns))
        self._waiting += chunk.events
        if self._waiting >= MANY_EVENTS:
            self._put()

    def settle(self) -> None:
        """Wait until all events are in columns. Raises what went wrong there."""
        self._put()
        self._wait()

    def close(self) -> None:
        """Forget all rows, and remove their files."""
        self._beside.shutdown()
        self.shelf.clear()

    def _put(self) -> None:
        """Make columns of what was added, while the next chunks come."""
        self._wait()
        parts, counted = self._parts, self._counted
        self._parts, self._counted, self._waiting = defaultdict(list), [], 0
        whole = {key: codes[:] for key, codes in self._whole.items()}
        self._work = self._beside.submit(self._store, parts, counted, whole)

    def _wait(self) -> None:
        if self._work is not None:
            self._work.result()

    def _store(
        self, parts: Mapping[str, list[Part]], counted: list[CounterEvent], whole: Mapping[tuple[int, str], array[int]]
    ) -> None:
        for group, some in parts.items():
            frame = self._frame(group, some, whole)
            self.untimed[group] += frame["ts"].null_count()
            self.rows[group].add(frame.with_row_index("id", offset=self.rows[group].height))
        if counted:
            self.counters.add(pl.DataFrame(counted, schema=COUNTERS, orient="row", strict=False))

    def _series(self, name: str, parts: list[Part], whole: Mapping[tuple[int, str], array[int]]) -> pl.Series:
        """A column of all parts; NULL in those that lack it."""
        found = next(part.columns[name] for part in parts if name in part.columns)
        if isinstance(found, list):
            texts: list[str | None] = []
            for part in parts:
                texts += part.columns.get(name, [None] * part.rows)  # type: ignore[arg-type]
            return pl.Series(name, texts, dtype=pl.String)
        data, nulls, start = list[bytes](), list[pl.Series](), 0
        for part in parts:
            column = part.columns.get(name)
            if isinstance(column, Column):
                data.append(column.data)
                if column.nulls:
                    nulls.append(_array("I", column.nulls) + start)
            else:
                data.append(bytes(part.rows * WIDTHS[found.code]))
                nulls.append(pl.int_range(start, start + part.rows, dtype=pl.UInt32, eager=True))
            start += part.rows
        if name in self._interners:
            series = _translated(name, data, parts, whole)
        else:
            series = _array(found.code, b"".join(data))
        return (series.scatter(pl.concat(nulls), None) if nulls else series).alias(name)

    def _frame(self, group: str, parts: list[Part], whole: Mapping[tuple[int, str], array[int]]) -> pl.DataFrame:
        names = dict.fromkeys(name for part in parts for name in part.columns)
        frame = pl.DataFrame([self._series(name, parts, whole) for name in names])
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
        if KEYS[group] not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(KEYS[group]))
        return frame


def _translated(
    name: str, codes: list[bytes], parts: list[Part], whole: Mapping[tuple[int, str], array[int]]
) -> pl.Series:
    """Codes of the readers, part by part, as codes of the whole; 0 also where a reader has given none yet."""
    readers = {part.reader: None for part in parts}
    known = {one: pl.Series(values=whole.get((one, name)) or array("I", [0]), dtype=pl.UInt32) for one in readers}
    return pl.concat(known[part.reader].gather(_array("I", data)) for part, data in zip(parts, codes, strict=True))


def _array(code: str, data: bytes) -> pl.Series:
    if native.built():
        return native.numbers(code, data)
    values = array(code)
    values.frombytes(data)
    return pl.Series(values=values, dtype=DTYPES[code])


def _nanoseconds(micros: pl.Expr) -> pl.Expr:
    """Microseconds to integer ns.

    The whole part is split off first: below 2^43 µs the fraction then keeps three exact digits.
    """
    kept = micros.clip(-SATURATED_US, SATURATED_US)
    return kept.floor().cast(pl.Int64) * 1000 + ((kept - kept.floor()) * 1000).round().cast(pl.Int64)
