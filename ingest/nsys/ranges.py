"""NVTX ranges: which range encloses which, and which one a call was made in.

A kernel belongs to the range that was innermost on the launching thread around the *API call*, as in NVIDIA's own
reports (`kernel_helper.py` of nsys 2023.4: the latest start among those that contain the call).

Exports have millions of ranges and few names, so of each range little is kept, and names and paths are kept once each.
The ranges of a thread are worked on in order of time, some at once; those that are open go on to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import polars as pl

from kerneldb import repeated, times
from kerneldb.ingest.distinct import coded_rows
from kerneldb.ingest.nsys.marks import MARK, THREAD, Marks, Names
from kerneldb.ingest.nsys.store import Schema

TOGETHER: Final = 1 << 18
"""So many ranges are worked on at once, in memory for each of which some hundred bytes are needed."""
DEEPEST: Final = 64
"""Ranges that nest deeper are walked one by one."""


class Paths(Protocol):
    """Numbers for what ranges are in; 0 is outside of all."""

    def of(self, rows: pl.DataFrame) -> pl.Series:
        """The number of each row, whose `above` is that of the range around it and `name` the code of its name."""


class Spans:
    """Ranges of an export, and the lookup from a thread and an interval to the one around it.

    Rows without trace_id go to `write`. `count` is their number; `unfinished` counts those that the recording cut,
    which reach to `last`.
    """

    def __init__(
        self, events: pl.DataFrame, last: int | None, paths: Paths, write: Callable[[pl.DataFrame], None]
    ) -> None:
        self.count = events.height
        self.unfinished = events["end"].null_count()
        self._last = last
        self._paths = paths
        self._starts = events["start"]
        self._places: dict[int | None, tuple[int, int]] = {}
        self._overlap = False
        self._ends, self._below, self._path = self._walk(events, write)

    def _rows(self, events: pl.DataFrame, walked: pl.DataFrame, threads: pl.DataFrame, thread: int) -> pl.DataFrame:
        """The rows of a thread, of which `walked` says what is around them."""
        raise NotImplementedError

    def around(self, calls: pl.DataFrame) -> pl.Series:
        """`range_id` for each row of `calls` (globalTid, start, end); NULL outside of ranges.

        From the range that started last on the thread, outwards until one contains the call.
        """
        if not self.count:
            return pl.repeat(None, calls.height, dtype=pl.Int64, eager=True).alias("range_id")
        asked = calls.select("globalTid", "start", "end").with_row_index("row")
        parts = [pl.DataFrame(schema={"row": pl.UInt32, "range_id": pl.Int64})]
        for (thread,), own in asked.group_by("globalTid"):
            first, size = self._places.get(thread, (0, 0))
            last = self._starts.slice(first, size).search_sorted(own["start"], "right").cast(pl.Int64) - 1
            found = pl.select(pl.when(last >= 0).then(last + first)).to_series()
            while True:
                ends = self._ends.gather(found)
                outside = ((ends <= own["start"]) | (ends < own["end"])).fill_null(value=True) & found.is_not_null()
                if not outside.any():
                    break
                found = self._below.gather(found).cast(pl.Int64).zip_with(outside, found)
            parts.append(own.select("row", found.alias("range_id")))
        return pl.concat(parts).sort("row")["range_id"]

    def _walk(
        self, events: pl.DataFrame, write: Callable[[pl.DataFrame], None]
    ) -> tuple[pl.Series, pl.Series, pl.Series]:
        """Of each range its end, the one that was open when it started, and its path. Marks have only the second."""
        length = times.between("start", "end")
        kept = pl.col("start") + times.kept_duration("start", length).fill_null(0)
        until = pl.when(pl.col("end").is_null()).then(pl.lit(self._last, pl.Int64)).otherwise(kept)
        is_range = (pl.col("kind") != MARK) & times.kept_time("start").is_not_null()
        until = pl.when(is_range).then(until)
        found: list[pl.DataFrame] = [pl.DataFrame(schema=_WALKED)]
        first, sizes = 0, events.group_by("globalTid", maintain_order=True).len()
        threads = processes_and_threads(sizes["globalTid"])
        for number, (thread, size) in enumerate(sizes.iter_rows()):
            self._places[thread] = (first, size)
            open_before = pl.DataFrame(schema=_OPEN)
            for part in _in_parts(events.slice(first, size).with_row_index("range_id", first)):
                spans = part.with_columns(pl.col("range_id").cast(pl.Int64), until=until)
                walked, open_before = _enclosed(spans, open_before, self._paths)
                spanned = walked.filter(pl.col("until").is_not_null())
                self._overlap |= not spanned["below"].equals(spanned["parent"], check_names=False)
                found.append(walked.select(*_WALKED))
                write(self._rows(spans, walked, threads, number))
            first += size
        whole = pl.concat(found, rechunk=True)
        return whole["until"], whole["below"], whole["path"]


class Ranges(Spans):
    """All ranges of an export that are no operators, and the lookup from a thread and an interval to that around it.

    `until` is the end of the recording, where the export states it.
    """

    def __init__(self, marks: Marks, until: int | None, write: Callable[[pl.DataFrame], None]) -> None:
        self.until = until
        self._names = marks.names
        self._texts = _Texts(marks.names)
        super().__init__(marks.ranges, marks.last, self._texts, write)

    def named(self, calls: pl.DataFrame) -> pl.DataFrame:
        """`phase` and `range_path` of calls, of which `range_id` is what `around` found, and `launch_…` the times."""
        path = self._through(calls) if self._overlap else self._path.gather(calls["range_id"])
        return self._texts.texts().select(pl.col("phase", "range_path").gather(path))

    def _through(self, calls: pl.DataFrame) -> pl.Series:
        """The path of each call where ranges overlap in part: one around the call need not be around its innermost."""
        start = calls["launch_start_ns"]
        end = start + calls["launch_duration_ns"].fill_null(0)
        at, outwards = calls["range_id"].cast(pl.Int64), []
        while at.null_count() < at.len():
            ends = self._ends.gather(at)
            around = at.set(~((ends > start) & (ends >= end)).fill_null(value=False), None)
            if around.null_count() < around.len():
                outwards.append(around)
            at = self._below.gather(at).cast(pl.Int64)
        path = pl.repeat(0, start.len(), dtype=pl.Int32, eager=True)
        for ranges in reversed(outwards):
            path = self._texts.joined(path, self._path.gather(ranges)).zip_with(ranges.is_not_null(), path)
        return path.set(calls["range_id"].is_null(), None)

    def _rows(self, events: pl.DataFrame, walked: pl.DataFrame, threads: pl.DataFrame, thread: int) -> pl.DataFrame:
        texts = self._texts.texts().select(pl.all().gather(walked["path"]))
        number = pl.concat_str(pl.lit('{"record_function_id": '), "number", pl.lit("}"))
        details = {"details": number} if "number" in events.columns else {}
        return events.hstack(texts).select(
            "range_id",
            "kind",
            name=self._names.coded.gather(events["name"]),
            process=same(threads["process"], thread),
            thread=same(threads["thread"], thread),
            start_ns="start",
            duration_ns=pl.when(pl.col("kind") == MARK).then(0).otherwise(times.between("start", "end")),
            parent_id=walked["parent"].cast(pl.Int64),
            depth=pl.col("depth").fill_null(0),
            path="range_path",
            finished=(pl.col("kind") == MARK) | pl.col("end").is_not_null(),
            **details,
        )


def processes_and_threads(numbers: pl.Series) -> pl.DataFrame:
    """Process and thread of each `globalTid`, as texts."""
    whole = {"process": numbers // THREAD % THREAD, "thread": numbers % THREAD}
    return repeated.coded(pl.DataFrame({name: part.cast(pl.String) for name, part in whole.items()}))


def same(texts: pl.Series, number: int) -> pl.Expr:
    """One of the texts, for every row."""
    return pl.lit(texts[number], dtype=texts.dtype)


_WALKED: Final[Schema] = {"until": pl.Int64, "below": pl.Int32, "path": pl.Int32}
_OPEN: Final[Schema] = {"range_id": pl.Int64, "start": pl.Int64, "until": pl.Int64, "path": pl.Int32}


def _in_parts(events: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The ranges of a thread, some at once; those of one start together."""
    first, starts = 0, events["start"]
    while first < events.height:
        end = min(first + TOGETHER, events.height)
        if end < events.height:
            end = int(starts.search_sorted(starts[end - 1], "right"))
        yield events.slice(first, end - first)
        first = end


class _Texts:
    """The distinct paths of ranges, numbered from 1; 0 is outside of all.

    The phase is the outermost annotation of the default domain, else the outermost of a library's domain.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._numbers: dict[tuple[int, int], int] = {}
        self._found: list[tuple[str, str | None, str | None, int]] = [("", None, None, -1)]
        self._own = [0]
        self._texts = pl.DataFrame()

    def of(self, rows: pl.DataFrame) -> pl.Series:
        """The number of the path of each row, whose `above` is that of the range around it and `name` its name."""
        return self._numbered(rows.select("above", fact=self._names.of_path.gather(rows["name"])))

    def joined(self, above: pl.Series, paths: pl.Series) -> pl.Series:
        """The numbers of paths that are `above` and below it the last name of `paths`."""
        own = pl.Series(self._own, dtype=pl.UInt32).gather(paths)
        return self._numbered(pl.DataFrame({"above": above, "fact": own.fill_null(0)}))

    def _numbered(self, pairs: pl.DataFrame) -> pl.Series:
        coded, distinct = coded_rows(pairs)
        numbers = pl.Series("path", [self._number(*pair) for pair in distinct.iter_rows()], dtype=pl.Int32)
        return numbers.gather(coded)

    def _number(self, above: int, fact: int) -> int:
        number = self._numbers.get((above, fact))
        if number is None:
            path, own, library, depth = self._found[above]
            plain, label, label_of_library = self._names.facts[fact]
            self._found.append(
                (f"{path}/{plain}" if path else plain, own or label, library or label_of_library, depth + 1)
            )
            self._own.append(fact)
            number = self._numbers[above, fact] = len(self._found) - 1
        return number

    def texts(self) -> pl.DataFrame:
        """`phase`, `range_path` and `depth` by number."""
        if self._texts.height != len(self._found):
            rows = [(own or library, path, depth) for path, own, library, depth in self._found]
            schema = {"phase": pl.String, "range_path": pl.String, "depth": pl.Int32}
            self._texts = pl.DataFrame(rows, schema=schema, orient="row")
        return self._texts


def _enclosed(events: pl.DataFrame, open_before: pl.DataFrame, paths: Paths) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`until`, `below`, `parent` and `path` of each row, and which ranges are open behind them.

    `below` is what was open when a range started, `parent` the first one outwards that ends no earlier. What is no
    range has a `below` only: the range that started before it.
    """
    spans = events.filter(pl.col("until").is_not_null())
    both = pl.concat([open_before.with_columns(name=pl.lit(None, pl.UInt32)), spans.select(*_OPEN_NEW)], how="diagonal")
    nested = _nested(both)
    below, parent = _walked(_edges(both), both.height) if nested is None else (nested, nested)
    both = both.with_columns(below=below, parent=parent)
    both = both.with_columns(path=_with_paths(both, paths))
    ids = both.select(
        "range_id",
        "path",
        below=pl.col("range_id").gather(pl.col("below")).cast(pl.Int32),
        parent=pl.col("range_id").gather(pl.col("parent")).cast(pl.Int32),
    ).slice(open_before.height)
    walked = events.select("range_id", "until").join(ids, on="range_id", how="left", maintain_order="left")
    before = pl.lit(open_before["range_id"].last() if open_before.height else None, pl.Int64)
    started = pl.when(pl.col("until").is_not_null()).then("range_id").forward_fill()
    walked = walked.with_columns(
        below=pl.when(pl.col("until").is_null()).then(pl.coalesce(started, before).cast(pl.Int32)).otherwise("below")
    )
    last = events["start"].last()
    return walked, both.filter(pl.col("until") >= last).select(*_OPEN)


_OPEN_NEW: Final = ("range_id", "start", "until", "name")


def _edges(spans: pl.DataFrame) -> pl.DataFrame:
    """Starts and ends in order; at one time ends go first, except that of a range that started at that very time."""
    numbered = spans.select("start", "until").with_row_index("number")
    starts = numbered.select("number", "until", time="start", phase=pl.lit(1, pl.Int8))
    late = pl.when(pl.col("start") == pl.col("until")).then(pl.lit(2, pl.Int8)).otherwise(pl.lit(0, pl.Int8))
    ends = numbered.select("number", "until", time="until", phase=late)
    order = [False, False, True, False]
    return pl.concat([starts, ends]).sort("time", "phase", "until", "number", descending=order)


def _nested(spans: pl.DataFrame) -> pl.Series | None:
    """The row around each row where all ranges nest, which is the last one before it that is one level less deep.

    As many are open when a range starts as have started and not ended; one of no length is open at its very time.
    """
    start, until = pl.col("start"), pl.col("until")
    again = start == start.shift(1)
    odd = (until < start) | (start < start.shift(1)) | (again & (until > until.shift(1)))
    if spans.select(odd.any()).item():
        return None
    ends = spans.select(2 * until + (until == start).cast(pl.Int64)).to_series().sort()
    ended = ends.search_sorted(2 * spans["start"], "right").cast(pl.Int32)
    depth = pl.int_range(spans.height, dtype=pl.Int32, eager=True) - ended
    deepest = depth.max()
    if not isinstance(deepest, int):
        return pl.Series("below", [], dtype=pl.UInt32)
    if deepest > DEEPEST:
        return None
    placed, number = pl.DataFrame({"depth": depth}), pl.int_range(pl.len(), dtype=pl.UInt32)
    around = [
        pl.when(pl.col("depth") == level + 1).then(pl.when(pl.col("depth") == level).then(number).forward_fill())
        for level in range(deepest)
    ]
    if not around:
        return pl.repeat(None, spans.height, dtype=pl.UInt32, eager=True).alias("below")
    below = placed.select(below=pl.coalesce(*around))["below"]
    return below if (spans["until"].gather(below) >= spans["until"]).fill_null(value=True).all() else None


def _walked(edges: pl.DataFrame, count: int) -> tuple[pl.Series, pl.Series]:
    """`below` and `parent` where ranges overlap: starts and ends in order of time, one by one."""
    below: list[int | None] = [None] * count
    parent: list[int | None] = [None] * count
    ends: dict[int, int] = {}
    open_ranges: list[int] = []
    for number, until, _, phase in edges.iter_rows():
        if phase == 1:
            ends[number] = until
            below[number] = open_ranges[-1] if open_ranges else None
            parent[number] = next((one for one in reversed(open_ranges) if ends[one] >= until), None)
            open_ranges.append(number)
        else:
            open_ranges.remove(number)
    return pl.Series("below", below, dtype=pl.UInt32), pl.Series("parent", parent, dtype=pl.UInt32)


def _with_paths(spans: pl.DataFrame, paths: Paths) -> pl.Series:
    """The path of each row; from outside in, as those of the rows around must be known."""
    rows = spans.select("path", "name", "parent").with_row_index("row")
    path = rows["path"]
    pending = rows.filter(pl.col("path").is_null())
    while pending.height:
        above = path.gather(pending["parent"])
        outside = pending["parent"].is_null()
        pending = pending.with_columns(above=pl.select(pl.when(outside).then(0).otherwise(above)).to_series())
        ready = pending.filter(pl.col("above").is_not_null())
        found = ready.select("row", path=paths.of(ready))
        path = path.scatter(found["row"], found["path"])
        pending = pending.filter(pl.col("above").is_null())
    return path
