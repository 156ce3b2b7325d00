"""The calls of an export, with the NVTX range and operator around each, and the lookup from an activity to its call."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.distinct import once_each
from kerneldb.ingest.nsys.marks import THREAD
from kerneldb.ingest.nsys.operators import Operators
from kerneldb.ingest.nsys.ranges import Ranges
from kerneldb.ingest.nsys.reports import VERSION
from kerneldb.ingest.nsys.store import Schema, Store
from kerneldb.times import widened

CUDA: Final = "cuda"
CALL_TABLES: Final[Mapping[str, str]] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": CUDA,
    "CUPTI_ACTIVITY_KIND_DRIVER": CUDA,
    "OSRT_API": "osrt",
    "CUDNN_EVENTS": "cudnn",
    "CUBLAS_EVENTS": "cublas",
    "MPI_P2P_EVENTS": "mpi",
    "MPI_COLLECTIVES_EVENTS": "mpi",
    "MPI_START_WAIT_EVENTS": "mpi",
    "MPI_OTHER_EVENTS": "mpi",
}
"""Table of calls → kind. Only those of CUDA launch activities and widen the window of the trace."""
KIND: Final = pl.Enum(["cuda_runtime", "cuda_driver", *dict.fromkeys(CALL_TABLES.values())])
CALL: Final[Schema] = dict.fromkeys(
    ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "textId", "size"), pl.Int64
)
DRIVER: Final = 1
"""`eventClass` of driver calls (TRACE_PROCESS_EVENT_CUDA_DRIVER); that of runtime calls is 0."""
CORRELATIONS: Final = 1 << 32
LINKED: Final[Schema] = {
    "key": pl.Int64,
    "start": pl.Int64,
    "duration": pl.Int64,
    "nameId": pl.UInt32,
    "range_id": pl.Int32,
    "op_id": pl.Int32,
    "api_index": pl.UInt32,
    "thread": pl.UInt32,
}
"""What is kept of every call until all activities have found theirs: 44 bytes each."""


class Processes:
    """Small numbers for processes, so that process and correlation id fit into one integer."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}

    def keys(self, process: pl.Series, correlation: pl.Series) -> pl.Series:
        """One integer per (`globalPid` or `globalTid` // 2^24, correlation id); NULL where either is."""
        for one in process.unique().drop_nulls():
            self._codes.setdefault(one, len(self._codes))
        codes = process.replace_strict(self._codes, default=None, return_dtype=pl.Int64)
        return (codes * CORRELATIONS + correlation).alias("key")


class Calls:
    """The calls of an export. Iterate `slices` to its end, then `behind` finds calls."""

    def __init__(self, store: Store, names: pl.DataFrame, ranges: Ranges, operators: Operators) -> None:
        self._store = store
        self._ranges = ranges
        self._operators = operators
        self._processes = Processes()
        self._parts: dict[str, list[pl.Series]] = {name: [] for name in LINKED}
        self._names = names.select(nameId="id", name=pl.col("value").str.replace(VERSION, ""))
        self.counts: Counter[str] = Counter()
        self.window: times.Window = (None, None)

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `api_calls` without trace_id."""
        for table, kind in CALL_TABLES.items():
            for part in self._store.frames(table, CALL):
                yield self._rows(part, kind)

    def _rows(self, part: pl.DataFrame, kind: str) -> pl.DataFrame:
        first = self.counts.total()
        index = pl.int_range(first, first + part.height, dtype=pl.Int64, eager=True).alias("api_index")
        self.counts[kind] += part.height
        around = [self._ranges.around(part), self._operators.around(part).alias("op_id")]
        called = part.with_columns(nameId=pl.coalesce("nameId", "textId"))
        named = called.join(self._names, on="nameId", how="left", maintain_order="left").hstack([index, *around])
        own = {"pid": pl.col("globalTid") // THREAD, "thread": pl.col("globalTid") % THREAD}
        named = named.with_columns(duration=times.between("start", "end"), **own)
        if kind == CUDA:
            self._link(named)
            until = self._ranges.until
            self.window = widened(self.window, times.span(part, "start", times.between("start", "end"), until))
        runtime, driver = pl.lit("cuda_runtime", KIND), pl.lit("cuda_driver", KIND)
        of_cuda = pl.when(pl.col("eventClass") == DRIVER).then(driver).otherwise(runtime)
        return named.select(
            "api_index",
            kind=of_cuda if kind == CUDA else pl.lit(kind, KIND),
            name=pl.col("name").fill_null(""),
            process=once_each(named["pid"], pl.col("pid") % THREAD),
            thread=once_each(named["thread"], pl.col("thread")),
            start_ns="start",
            duration_ns="duration",
            correlation_id="correlationId",
            op_id="op_id",
            range_id="range_id",
            bytes="size",
        )

    def _link(self, named: pl.DataFrame) -> None:
        """Keep what activities will look for."""
        key = self._processes.keys(named["pid"], named["correlationId"])
        kept = (
            named.with_columns(key)
            .select(pl.col(name).cast(kind, strict=False) for name, kind in LINKED.items())
            .filter(pl.col("key").is_not_null())
        )
        copied = kept.select(pl.all().gather(pl.int_range(pl.len())))  # else a column keeps its whole batch alive
        for name, parts in self._parts.items():
            parts.append(copied[name])

    @functools.cached_property
    def _index(self) -> _Index:
        """The calls by number, once all are added."""
        return _Index(self._parts)

    def are_ambiguous(self, process: pl.Series, correlation: pl.Series) -> pl.Series:
        """Whether several calls have the number: then only a time of the host tells which of them is meant."""
        return self._index.are_repeated(self._processes.keys(process, correlation))

    def places(self, process: pl.Series, correlation: pl.Series, start: pl.Series) -> pl.Series:
        """Where the call of each activity is kept, for `behind`."""
        return self._index.find(self._processes.keys(process, correlation), start)

    def behind(
        self, process: pl.Series, correlation: pl.Series, start: pl.Series, places: pl.Series | None = None
    ) -> pl.DataFrame:
        """The call of each activity; NULL without call. Of several with one number, the last that began before it.

        Columns: `api_index`, `thread`, `api_call`, `launch_start_ns`, `launch_duration_ns`, `range_id`, `op_id`.
        `process` is `globalPid` // 2^24; `places` are those of the calls, if they are known.
        """
        taken = self._index.at(self.places(process, correlation, start) if places is None else places)
        named = taken.join(self._names, on="nameId", how="left", maintain_order="left")
        return named.select(
            *("api_index", "range_id", "op_id", "thread"),
            api_call="name", launch_start_ns="start", launch_duration_ns="duration",
        )  # fmt: skip

    def operators_of(self, places: pl.Series) -> pl.Series:
        """`op_id` of the calls at these places."""
        return self._index.operators_of(places)


class _Index:
    """Calls by key. Columns are joined one by one, so that memory never holds all of them twice."""

    def __init__(self, parts: dict[str, list[pl.Series]]) -> None:
        columns = {}
        for name, kind in LINKED.items():
            columns[name] = pl.concat([pl.Series(name, dtype=kind), *parts[name]], rechunk=True)
            parts[name].clear()
        key = columns.pop("key")
        self._columns = columns
        self._order = None if key.is_sorted() else key.arg_sort()
        self._keys = key if self._order is None else key.gather(self._order)
        again = self._keys == self._keys.shift(1)
        self._repeated = self._calls_of(self._keys.filter(again).unique()) if again.any() else None

    def _calls_of(self, keys: pl.Series) -> pl.DataFrame:
        """Key, start and row of all calls with these keys, by start: numbers begin anew after 2^32 of them."""
        place = self._keys.is_in(keys.implode()).arg_true()
        row = place if self._order is None else self._order.gather(place)
        found = pl.DataFrame({"key": self._keys.gather(place), "start": self._columns["start"].gather(row), "row": row})
        return found.drop_nulls("start").sort("start", "row")

    def are_repeated(self, keys: pl.Series) -> pl.Series:
        """Whether each key is that of several calls."""
        return (
            pl.repeat(False, keys.len(), eager=True)
            if self._repeated is None
            else keys.is_in(self._repeated["key"].implode())
        )

    def find(self, keys: pl.Series, start: pl.Series) -> pl.Series:
        """The row of the call of each key, NULL where there is none; of several the last that began before `start`."""
        size = self._keys.len()
        if not size:
            return pl.repeat(None, keys.len(), dtype=pl.UInt32, eager=True)
        place = self._keys.search_sorted(keys.fill_null(-1), "left").clip(0, size - 1)
        same = self._keys.gather(place) == keys
        row = place if self._order is None else self._order.gather(place)
        found = pl.select(pl.when(same).then(row)).to_series().cast(pl.UInt32)
        return found if self._repeated is None else _last_before(self._repeated, keys, start, found)

    def operators_of(self, rows: pl.Series) -> pl.Series:
        """`op_id` of the calls in these rows."""
        return self._columns["op_id"].gather(rows)

    def at(self, rows: pl.Series) -> pl.DataFrame:
        """The calls in these rows, NULLs where there is none."""
        taken = {name: column.gather(rows) for name, column in self._columns.items()}
        return pl.DataFrame(taken).with_columns(pl.col("nameId", "range_id", "op_id", "api_index").cast(pl.Int64))


def _last_before(calls: pl.DataFrame, keys: pl.Series, start: pl.Series, found: pl.Series) -> pl.Series:
    """`found` with the last of these calls that began no later than `start`, where there is one."""
    asked = pl.DataFrame({"key": keys, "start": start, "found": found}).with_row_index("asked")
    known = asked.drop_nulls("start").sort("start")
    last = known.join_asof(calls, on="start", by="key", strategy="backward", check_sortedness=False)
    rows = asked.join(last.select("asked", "row"), on="asked", how="left", maintain_order="left")
    return rows.select(pl.coalesce("row", "found").cast(pl.UInt32)).to_series()
