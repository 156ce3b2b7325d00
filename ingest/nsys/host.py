"""NVTX ranges: which range encloses which, and which one a call was made in.

A kernel belongs to the range that was innermost on the launching thread around the *API call*, as in NVIDIA's own
reports (`kernel_helper.py` of nsys 2023.4: the latest start among those that contain the call).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.nsys.reports import VERSION
from kerneldb.ingest.nsys.store import Schema, Store, frame
from kerneldb.times import widened

EVENT: Final[Schema] = {
    **dict.fromkeys(("start", "end", "eventType", "textId", "globalTid", "endGlobalTid", "domainId"), pl.Int64),
    "text": pl.String,
}
PUSH_POP, START_END, MARK, DOMAIN = "nvtx_push_pop", "nvtx_start_end", "nvtx_mark", "domain"
KINDS: Final[Mapping[int, str]] = {
    34: MARK,
    59: PUSH_POP,
    60: START_END,
    65: MARK,
    70: PUSH_POP,
    71: START_END,
    75: DOMAIN,
}
"""`eventType` → kind, from ENUM_NSYS_EVENT_TYPE."""
OUTSIDE: Final = -1
THREAD: Final = 1 << 24
STEP_PREFIX: Final = "ProfilerStep"
OPERATOR: Final = re.compile(r"\w+::.*")
EMITTED: Final = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = .*")
"""What `torch.autograd.profiler.emit_nvtx` adds to the name of an operator or annotation."""
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
    "api_index": pl.UInt32,
    "thread": pl.UInt32,
}
"""What is kept of every call until all activities have found theirs: 40 bytes each."""


class Ranges:
    """All ranges of an export, and the lookup from a thread and an interval to the range around it.

    `rows` are rows of `ranges` without trace_id; `names` has phase and range_path, its row is the number of the range;
    `unfinished` counts ranges that the recording cut; `until` is the end of the recording, where the export states it.
    """

    def __init__(self, store: Store, strings: pl.DataFrame, until: int | None = None) -> None:
        events = _events(store, strings)
        self.until = until
        self.unfinished = events["end"].null_count() if events.height else 0
        spans = _spans(events)
        self._stack = _Stack(spans, events.height)
        self.names = self._stack.names
        self.rows = _rows(events, self._stack)

    def around(self, calls: pl.DataFrame) -> pl.Series:
        """`range_id` for each row of `calls` (globalTid, start, end); NULL outside of ranges."""
        return self._stack.innermost(calls)


def _events(store: Store, strings: pl.DataFrame) -> pl.DataFrame:
    events = frame(store, "NVTX_EVENTS", EVENT)
    kinds = pl.DataFrame(
        {"eventType": list(KINDS), "kind": list(KINDS.values())}, schema={"eventType": pl.Int64, "kind": pl.String}
    )
    texts = strings.select(textId="id", registered="value")
    named = events.join(kinds, on="eventType").join(texts, on="textId", how="left")
    named = named.with_columns(name=pl.coalesce("text", "registered"), process=pl.col("globalTid") // THREAD)
    domains = named.filter(pl.col("kind") == DOMAIN).select("process", "domainId", domain="name").unique()
    spans = named.filter(pl.col("kind") != DOMAIN, pl.col("start").is_not_null())
    spans = spans.join(domains.unique(["process", "domainId"]), on=["process", "domainId"], how="left")
    ordered = spans.sort("globalTid", "start", "end", descending=[False, False, True], nulls_last=False)
    return ordered.with_row_index("range_id").with_columns(
        pl.col("range_id").cast(pl.Int64),
        default_domain=pl.col("domainId").fill_null(0) == 0,
        name=pl.concat_str("domain", pl.col("name").fill_null(""), separator=":", ignore_nulls=True),
    )


def _spans(events: pl.DataFrame) -> pl.DataFrame:
    """What may enclose something: ranges with an end, the last time of all where the recording cut them.

    A range whose duration is refused encloses nothing.
    """
    length = times.between("start", "end")
    _, last = times.span(events, "start", length)
    known = events.filter(pl.col("kind") != MARK, times.kept_time("start").is_not_null())
    kept = pl.col("start") + times.kept_duration("start", length).fill_null(0)
    return known.with_columns(end=pl.when(pl.col("end").is_null()).then(pl.lit(last, pl.Int64)).otherwise(kept))


class _Stack:
    """The open ranges of each thread over time."""

    def __init__(self, spans: pl.DataFrame, count: int) -> None:
        self._end: dict[int, int] = {}
        self._below: dict[int, int] = {}
        self.parent: dict[int, int] = {}
        times = self._sweep(spans)
        self._segments = times.sort("start", maintain_order=True)
        self._limits = _dense(
            count, {"below": self._below, "until": self._end}, dict.fromkeys(("below", "until"), pl.Int64)
        )
        self.names = _named(spans, self.parent, count)

    def _sweep(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Walk starts and ends of each thread in order of time; (thread, time, innermost open range from then on)."""
        found: list[tuple[int, int, int]] = []
        open_ranges: list[int] = []
        thread = None
        for at_thread, time, phase, number, end in _edges(spans).iter_rows():
            if at_thread != thread:
                open_ranges, thread = [], at_thread
            if phase == 1:
                self._end[number] = end
                self._below[number] = open_ranges[-1] if open_ranges else OUTSIDE
                self.parent[number] = next((one for one in reversed(open_ranges) if self._end[one] >= end), OUTSIDE)
                open_ranges.append(number)
            else:
                open_ranges.remove(number)
            found.append((at_thread, time, open_ranges[-1] if open_ranges else OUTSIDE))
        return pl.DataFrame(found, schema=dict.fromkeys(("globalTid", "start", "range_id"), pl.Int64), orient="row")

    def innermost(self, calls: pl.DataFrame) -> pl.Series:
        """The range that started last among those that contain the interval of a call; NULL where none does."""
        if self._segments.is_empty():
            return pl.Series("range_id", [None] * calls.height, dtype=pl.Int64)
        asked = calls.select("globalTid", "start", "end").with_row_index("row").sort("start")
        placed = asked.join_asof(self._segments, on="start", by="globalTid", check_sortedness=False)
        found = placed.sort("row")["range_id"].fill_null(OUTSIDE)
        ends = calls["end"]
        while True:
            limits = self._limits.select(pl.all().gather(found.replace(OUTSIDE, None)))
            beyond = (limits["until"] < ends).fill_null(value=False)
            if not beyond.any():
                return found.replace(OUTSIDE, None).alias("range_id")
            found = limits["below"].zip_with(beyond, found)


def _dense(count: int, columns: Mapping[str, Mapping[int, Any]], schema: Schema) -> pl.DataFrame:
    """Values by range as columns whose row is the number of the range; marks have none."""
    return pl.DataFrame(
        {
            name: pl.Series([values.get(number) for number in range(count)], dtype=schema[name])
            for name, values in columns.items()
        }
    )


def _edges(spans: pl.DataFrame) -> pl.DataFrame:
    """Starts and ends in order; at one time ends go first, except that of a range that started at that very time."""
    starts = spans.select("globalTid", time="start", phase=pl.lit(1), number="range_id", end="end")
    late = pl.when(pl.col("start") == pl.col("end")).then(2).otherwise(0)
    ends = spans.select("globalTid", time="end", phase=late, number="range_id", end="end")
    return pl.concat([starts, ends]).sort(
        "globalTid", "time", "phase", "end", "number", descending=[False, False, False, True, False]
    )


def _named(spans: pl.DataFrame, parents: Mapping[int, int], count: int) -> pl.DataFrame:
    """`phase` and `range_path`, in the order of the ranges.

    The phase is the outermost annotation of the default domain, else the outermost of a library's domain.
    """
    paths: dict[int, tuple[str, str | None, str | None]] = {OUTSIDE: ("", None, None)}
    for number, name, default in spans.select("range_id", "name", "default_domain").iter_rows():
        above, own, library = paths[parents[number]]
        label = annotation(name)
        plain = EMITTED.sub("", name)
        path = f"{above}/{plain}" if above else plain
        paths[number] = (path, own or (label if default else None), library or (None if default else label))
    del paths[OUTSIDE]
    phases = {number: own or library for number, (_, own, library) in paths.items()}
    columns: dict[str, Mapping[int, Any]] = {
        "phase": phases,
        "range_path": {number: path for number, (path, _, _) in paths.items()},
    }
    return _dense(count, columns, dict.fromkeys(columns, pl.String))


def annotation(name: str) -> str | None:
    """The name of a stage, None for steps and for operators that torch marks (`aten::mm, op_id = 7`)."""
    if name.startswith(STEP_PREFIX):
        return None
    plain = EMITTED.sub("", name)
    return None if plain != name and OPERATOR.fullmatch(plain) else plain


def _rows(events: pl.DataFrame, stack: _Stack) -> pl.DataFrame:
    parents = pl.DataFrame(
        {"range_id": list(stack.parent), "parent": list(stack.parent.values())},
        schema=dict.fromkeys(("range_id", "parent"), pl.Int64),
    )
    joined = events.hstack(stack.names).join(parents, on="range_id", how="left", maintain_order="left")
    depths: dict[int, int] = {OUTSIDE: -1}
    for number, parent in stack.parent.items():
        depths[number] = depths[parent] + 1
    return joined.select(
        "range_id",
        "kind",
        "name",
        process=(pl.col("process") % THREAD).cast(pl.String),
        thread=(pl.col("globalTid") % THREAD).cast(pl.String),
        start_ns="start",
        duration_ns=pl.when(pl.col("kind") == MARK).then(0).otherwise(times.between("start", "end")),
        parent_id=pl.when(pl.col("parent") != OUTSIDE).then("parent"),
        depth=pl.Series("depth", [depths.get(one, 0) for one in joined["range_id"]], dtype=pl.Int32),
        path="range_path",
        finished=(pl.col("kind") == MARK) | pl.col("end").is_not_null(),
    )


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
        self._names = names.select(nameId="id", name=pl.col("value").str.replace(VERSION, ""))
        self._index: _Index | None = None
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
        around = self._ranges.around(part)
        called = part.with_columns(nameId=pl.coalesce("nameId", "textId"))
        named = called.join(self._names, on="nameId", how="left", maintain_order="left").hstack([index, around])
        own = {"pid": pl.col("globalTid") // THREAD, "thread": pl.col("globalTid") % THREAD}
        named = named.with_columns(duration=times.between("start", "end"), **own)
        if kind == CUDA:
            self._link(named)
            until = self._ranges.until
            self.window = widened(self.window, times.span(part, "start", times.between("start", "end"), until))
        driver = pl.when(pl.col("eventClass") == DRIVER).then(pl.lit("cuda_driver")).otherwise(pl.lit("cuda_runtime"))
        return named.select(
            "api_index",
            kind=driver if kind == CUDA else pl.lit(kind),
            name=pl.col("name").fill_null(""),
            process=(pl.col("pid") % THREAD).cast(pl.String),
            thread=pl.col("thread").cast(pl.String),
            start_ns="start",
            duration_ns="duration",
            correlation_id="correlationId",
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

    def behind(self, process: pl.Series, correlation: pl.Series) -> pl.DataFrame:
        """The call of each activity; NULL without call.

        Columns: `api_index`, `thread`, `api_call`, `launch_start_ns`, `launch_duration_ns`, `range_id`.
        `process` is `globalPid` // 2^24.
        """
        if self._index is None:
            self._index = _Index(self._parts)
        taken = self._index.find(self._processes.keys(process, correlation))
        named = taken.join(self._names, on="nameId", how="left", maintain_order="left")
        return named.select(
            "api_index", "range_id", "thread", api_call="name", launch_start_ns="start", launch_duration_ns="duration"
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
