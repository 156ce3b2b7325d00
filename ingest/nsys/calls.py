"""Runtime and driver calls of an export: rows of `api_calls`, and the call behind each GPU activity.

Correlation ids repeat across processes, so an activity belongs to the call of its process with its correlation id;
`globalPid` is the `globalTid` of the process with the thread's 24 bits cleared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.nsys.ranges import THREAD, Ranges
from kerneldb.ingest.nsys.store import Schema, Store
from kerneldb.times import widened

TABLES: Final = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
SCHEMA: Final[Schema] = {
    "start": pl.Int64,
    "end": pl.Int64,
    "eventClass": pl.Int64,
    "globalTid": pl.Int64,
    "correlationId": pl.Int64,
    "nameId": pl.Int64,
}
DRIVER: Final = 1
"""`eventClass` of driver calls (TRACE_PROCESS_EVENT_CUDA_DRIVER); that of runtime calls is 0."""
CORRELATIONS: Final = 1 << 32
VERSION_SUFFIX: Final = r"_v\d+$"
LINKED: Final[Schema] = {
    "key": pl.Int64,
    "start": pl.Int64,
    "duration": pl.Int64,
    "nameId": pl.UInt32,
    "range_id": pl.Int32,
    "api_index": pl.UInt32,
}
"""What is kept of every call until all activities have found theirs: 36 bytes each."""


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

    def __init__(self, store: Store, names: pl.DataFrame, ranges: Ranges) -> None:
        self._store = store
        self._ranges = ranges
        self._processes = Processes()
        self._parts: dict[str, list[pl.Series]] = {name: [] for name in LINKED}
        self._names = names.select(nameId="id", name=pl.col("value").str.replace(VERSION_SUFFIX, ""))
        self._index: _Index | None = None
        self.count = 0
        self.window: times.Window = (None, None)

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `api_calls` without trace_id."""
        for table in TABLES:
            for part in self._store.frames(table, SCHEMA):
                yield self._rows(part)

    def _rows(self, part: pl.DataFrame) -> pl.DataFrame:
        index = pl.int_range(self.count, self.count + part.height, dtype=pl.Int64, eager=True).alias("api_index")
        self.count += part.height
        around = self._ranges.around(part)
        named = part.join(self._names, on="nameId", how="left", maintain_order="left").hstack([index, around])
        named = named.with_columns(duration=times.between("start", "end"), pid=pl.col("globalTid") // THREAD)
        key = self._processes.keys(named["pid"], named["correlationId"])
        kept = (
            named.with_columns(key)
            .select(pl.col(name).cast(kind) for name, kind in LINKED.items())
            .filter(pl.col("key").is_not_null())
        )
        copied = kept.select(pl.all().gather(pl.int_range(pl.len())))  # else a column keeps its whole batch alive
        for name, parts in self._parts.items():
            parts.append(copied[name])
        until = self._ranges.until
        self.window = widened(self.window, times.span(part, "start", times.between("start", "end"), until))
        return named.select(
            "api_index",
            kind=pl.when(pl.col("eventClass") == DRIVER).then(pl.lit("cuda_driver")).otherwise(pl.lit("cuda_runtime")),
            name=pl.col("name").fill_null(""),
            process=(pl.col("pid") % THREAD).cast(pl.String),
            thread=(pl.col("globalTid") % THREAD).cast(pl.String),
            start_ns="start",
            duration_ns="duration",
            correlation_id="correlationId",
            range_id="range_id",
        )

    def behind(self, process: pl.Series, correlation: pl.Series) -> pl.DataFrame:
        """`api_index`, `api_call`, `launch_start_ns`, `launch_duration_ns`, `range_id` per activity; NULL without call.

        `process` is `globalPid` // 2^24.
        """
        if self._index is None:
            self._index = _Index(self._parts)
        taken = self._index.find(self._processes.keys(process, correlation))
        named = taken.join(self._names, on="nameId", how="left", maintain_order="left")
        return named.select(
            "api_index", "range_id", api_call="name", launch_start_ns="start", launch_duration_ns="duration"
        )


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

    def find(self, keys: pl.Series) -> pl.DataFrame:
        """The first call of each key, NULLs where there is none."""
        size = self._keys.len()
        if not size:
            found = pl.repeat(None, keys.len(), dtype=pl.UInt32, eager=True)
        else:
            place = self._keys.search_sorted(keys.fill_null(-1), "left").clip(0, size - 1)
            same = self._keys.gather(place) == keys
            row = place if self._order is None else self._order.gather(place)
            found = pl.select(pl.when(same).then(row)).to_series().cast(pl.UInt32)
        taken = {name: column.gather(found) for name, column in self._columns.items()}
        return pl.DataFrame(taken).with_columns(pl.col("nameId", "range_id", "api_index").cast(pl.Int64))
