"""Which operator, annotation and Python frame encloses what, and which call launched which GPU activity.

Rule (measured on 89 GPU traces of torch 1.8-2.13): activity → runtime or driver event of the same correlation →
innermost operator on that thread whose interval contains the call. `External id` is a fallback only, and only where
it is not a copy of the correlation, as torch 2.0-2.3 wrote it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.output import nullable
from kerneldb.ingest.pytorch.collect import Collector, Interner
from kerneldb.ingest.pytorch.nesting import ANNOTATION, CALL, MODULE, OP, PYTHON, STRETCH, enclosing_of
from kerneldb.ingest.runs import Stretch, gathered, stretches
from kerneldb.ingest.threads import mapped

MODULE_PREFIX: Final = "nn.Module: "
NATIVE_PREFIX: Final = "<built-in "
"""Frames of functions that are not written in Python have no line, and often the address of an object."""
STEP_PREFIX: Final = "ProfilerStep"
RANGE, OPERATOR, API, MEMORY, GPU = range(5)
GROUPS: Final = ("op", "api", "range", "other", "memory", "sync")
AROUND: Final = ("op_id", "range_id")
LARGE: Final = 2
"""Stretches of `nesting` in one of ours: all that is derived of their items is made at once."""
AHEAD: Final = 6
"""Stretches that are worked on at the same time, however many processors there are: each takes some 50 MB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """The host side of a stretch of time: frames with their row positions as `order`, and `id`, those in the trace.

    `ops`, `apis` and `memory` carry `op`, `annotation`, `module`, `python` (row positions, NULL where none encloses
    them), and the ids of the first two as `op_id` and `range_id`; `ranges` holds annotations, frames and spans of all
    other categories, with `path`, `phase` and `place`, a code of both; `syncs` the waits and events of the streams. The
    first `open_ops` and `open_ranges` began earlier, and are of the stretch before.
    """

    ops: pl.DataFrame
    apis: pl.DataFrame
    ranges: pl.DataFrame
    memory: pl.DataFrame
    syncs: pl.DataFrame
    open_ops: int
    open_ranges: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Spans:
    """What was recorded in a stretch of time, before anything is linked; first what is open when it begins."""

    ops: pl.DataFrame
    apis: pl.DataFrame
    ranges: pl.DataFrame
    memory: pl.DataFrame
    syncs: pl.DataFrame
    open_ops: int
    open_ranges: int


def read_host(collected: Collector, places: Interner) -> Iterator[Host]:
    """Build the host side from what was collected, in order of time; `places` gets paths and phases of annotations."""
    linker = _Linker(collected, places)
    return map(linker.ordered, mapped(linker.linked, linker.spans(), AHEAD))


class _Linker:
    def __init__(self, collected: Collector, places: Interner) -> None:
        self._collected = collected
        self._places = places
        self._labels = _labels(collected)
        self._forward = _Forward()
        self._ops, self._ranges = _empty(), _empty()

    def spans(self) -> Iterator[_Spans]:
        """Stretch by stretch: longer ones where many spans are open, so that the work for those is in proportion."""
        cuts, skipped = stretches([self._collected.rows[group] for group in GROUPS], STRETCH * LARGE), 0
        for number, (low, _) in enumerate(cuts):
            if skipped:
                skipped -= 1
                continue
            skipped = min((self._ops.height + self._ranges.height) // (STRETCH * LARGE), len(cuts) - 1 - number)
            yield self._spans((low, cuts[number + skipped][1]))

    def _spans(self, stretch: Stretch) -> _Spans:
        collected = self._collected
        open_ops, open_ranges = self._ops.height, self._ranges.height
        ops = _numbered([self._ops, _frame(collected, "op", stretch)])
        other = _frame(collected, "other", stretch).with_columns(pl.col("id") + collected.rows["range"].height)
        ranges = _numbered([self._ranges, _frame(collected, "range", stretch), other])
        ranges = ranges.hstack(gathered(self._labels, ranges["label"]))
        self._keep(ops, ranges, stretch[1])
        apis, memory, syncs = (_frame(collected, group, stretch) for group in ("api", "memory", "sync"))
        return _Spans(ops, _numbered([apis]), ranges, _numbered([memory]), syncs, open_ops, open_ranges)

    def linked(self, spans: _Spans) -> Host:
        """All links within a stretch; several threads may do this for several of them."""
        until = self._collected.window_end_ns
        ops, apis, ranges, memory = spans.ops, spans.apis, spans.ranges, spans.memory
        items = [
            _items(ranges, RANGE, pl.col("kind")),
            _items(ops, OPERATOR, pl.lit(OP), until),
            _items(apis, API, pl.lit(CALL), until),
            _items(memory.with_columns(dur=pl.lit(0)), MEMORY, pl.lit(CALL)),
        ]
        enclosing = enclosing_of(pl.concat(items))
        ranges = _paths(_joined(ranges, enclosing, RANGE))
        apis = _across_threads(_joined(apis, enclosing, API), ranges, self._collected)
        ops = _joined(ops, enclosing, OPERATOR)
        lines = _lines(ranges)
        ops, apis = (frame.with_columns(python=lines.gather(frame["python"])) for frame in (ops, apis))
        memory = _joined(memory, enclosing, MEMORY)
        ops, apis, memory = (_identified(frame, ops, ranges) for frame in (ops, apis, memory))
        return Host(ops, apis, ranges, memory, spans.syncs, spans.open_ops, spans.open_ranges)

    def ordered(self, host: Host) -> Host:
        """What depends on the stretches before: forward operators, and codes of paths."""
        ops = self._forward.linked(host.ops, host.open_ops)
        return dataclasses.replace(host, ops=ops, ranges=self._placed(host.ranges))

    def _keep(self, ops: pl.DataFrame, ranges: pl.DataFrame, end: int | None) -> None:
        """Keep what encloses something of the next stretch, which begins at `end`."""
        if end is not None:
            self._ops = ops.filter(end_of(self._collected.window_end_ns) > end).drop("order")
            spans = ranges.filter((end_of(None) > end) & pl.col("kind").is_not_null())
            self._ranges = spans.drop("order", *self._labels.columns)

    def _placed(self, ranges: pl.DataFrame) -> pl.DataFrame:
        notes = ranges.filter(pl.col("path").is_not_null()).select("order", "path", "phase")
        codes = pl.Series("place", self._places.add(notes.select("path", "phase").rows()), dtype=pl.UInt32)
        return ranges.join(notes.select("order").hstack([codes]), on="order", how="left", maintain_order="left")


def _identified(frame: pl.DataFrame, ops: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Add the ids of the operator and of the annotation around each row."""
    around = (ops["id"].gather(frame["op"]), ranges["id"].gather(frame["annotation"]))
    return frame.hstack([ids.cast(pl.Int64).alias(name) for ids, name in zip(around, AROUND, strict=True)])


def _empty() -> pl.DataFrame:
    codes = dict.fromkeys(("id", "thread", "call", "note", "api", "label", "sync"), pl.UInt32)
    return pl.DataFrame(schema={**codes, "ts": pl.Int64, "dur": pl.Int64})


def _frame(collected: Collector, group: str, stretch: Stretch) -> pl.DataFrame:
    """The events of a group in a stretch of time, in the order of the text."""
    rows = collected.rows[group]
    if not rows.height:
        return _empty()
    return nullable(rows.between(stretch).sort("id"), dict.fromkeys(("ts", "dur"), pl.Int64))


def _numbered(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([part for part in parts if part.height] or parts[:1], how="diagonal").with_row_index("order")


def _lines(ranges: pl.DataFrame) -> pl.Series:
    """Of each frame its position, or that of the nearest frame around it that has a source line where it has none."""
    own, above = ranges["order"].cast(pl.Int32), ranges["python"].cast(pl.Int32)
    stays = ~ranges["name"].str.starts_with(NATIVE_PREFIX).fill_null(value=False) | above.is_null()
    lines = own.zip_with(stays, above)
    while not (further := lines.gather(lines)).equals(lines):
        lines = further
    return lines


def api_labels(collected: Collector) -> pl.DataFrame:
    """Code of a runtime call → category, name and launch arguments."""
    table = collected.apis.table("api", "cat", "name", "grid", "block", "shared", "kind", "kernel")
    return table.with_columns(pl.col("shared").cast(pl.Int64, strict=False))


def _labels(collected: Collector) -> pl.DataFrame:
    """Category, name and kind of ranges in the order of their codes."""
    labels = collected.labels.table("label", "cat", "name")
    return labels.select(
        "cat",
        "name",
        kind=pl.when(pl.col("cat") == "user_annotation")
        .then(ANNOTATION)
        .when(pl.col("cat") != "python_function")
        .then(None)
        .when(pl.col("name").str.starts_with(MODULE_PREFIX))
        .then(MODULE)
        .otherwise(PYTHON),
    )


def end_of(until: int | None) -> pl.Expr:
    """The end of an event; one whose duration is refused, or not known, encloses nothing."""
    return times.kept_time("ts") + times.kept_duration("ts", pl.col("dur"), until).fill_null(0)


def _items(frame: pl.DataFrame, source: int, kind: pl.Expr, until: int | None = None) -> pl.DataFrame:
    end, ts = end_of(until).alias("end"), times.kept_time("ts").alias("ts")
    chosen = frame.select("thread", ts, end, kind.cast(pl.Int8).alias("kind"), index="order")
    return chosen.with_columns(source=pl.lit(source, dtype=pl.UInt8)).drop_nulls(("ts", "kind"))


def _joined(frame: pl.DataFrame, enclosing: pl.DataFrame, source: int) -> pl.DataFrame:
    mine = enclosing.filter(pl.col("source") == source).drop("source")
    mine = mine if mine["order"].is_sorted() else mine.sort("order")
    if mine.height == frame.height:
        return frame.hstack(mine.drop("order"))
    return frame.join(mine, on="order", how="left", maintain_order="left")


def _paths(ranges: pl.DataFrame) -> pl.DataFrame:
    """Path and phase of each annotation. The phase is the outermost annotation below the profiler's step."""
    paths: dict[int, tuple[str, str | None]] = {}
    notes = ranges.filter(pl.col("kind") == ANNOTATION).sort(
        "ts", -times.kept_duration("ts", pl.col("dur")).fill_null(0)
    )
    for order, name, parent in notes.select("order", pl.col("name").fill_null(""), "annotation").iter_rows():
        above, phase = paths.get(parent, ("", None))
        step = name.startswith(STEP_PREFIX)
        paths[order] = (f"{above}/{name}" if above else name, phase or (None if step else name))
    table = pl.DataFrame(
        {
            "order": pl.Series(paths.keys(), dtype=pl.UInt32),
            "path": pl.Series([path for path, _ in paths.values()], dtype=pl.String),
            "phase": pl.Series([phase for _, phase in paths.values()], dtype=pl.String),
        }
    )
    return ranges.join(table, on="order", how="left", maintain_order="left")


def _across_threads(apis: pl.DataFrame, ranges: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Give calls of threads without annotations (autograd's) the one that another thread of the process is in."""
    notes = ranges.filter(pl.col("kind") == ANNOTATION)
    bare = apis.filter(pl.col("annotation").is_null())
    if notes.is_empty() or bare.is_empty():
        return apis
    pids: dict[object, int] = {}
    codes = [pids.setdefault(pid, len(pids)) for pid, _ in collected.threads.rows()]
    process = pl.DataFrame({"pid": pl.Series(codes, dtype=pl.Int64)}).with_row_index("thread")
    items = pl.concat([_items(notes, RANGE, pl.col("kind")), _items(bare, API, pl.lit(CALL), collected.window_end_ns)])
    items = items.join(process, on="thread").with_columns(thread=pl.col("pid").cast(pl.UInt32)).drop("pid")
    found = enclosing_of(items).filter(pl.col("source") == API).select("order", other="annotation")
    merged = apis.join(found, on="order", how="left", maintain_order="left")
    return merged.with_columns(annotation=pl.coalesce("annotation", "other")).drop("other")


class _Forward:
    """Links each backward operator to the last started forward one of its sequence number: that one made the node.

    Source: `generateForwardBackwardLinks` in torch/csrc/profiler/collection.cpp.
    """

    def __init__(self) -> None:
        self._before = pl.DataFrame(schema={"Sequence number": pl.Int64, "ts": pl.Int64, "forward": pl.UInt32})
        self._distinct = 0

    def linked(self, ops: pl.DataFrame, known: int) -> pl.DataFrame:
        """Add `forward`, the id of the forward operator. The first `known` rows were here before."""
        if "Sequence number" not in ops.columns or "Fwd thread id" not in ops.columns:
            return ops.with_columns(forward=pl.lit(None, dtype=pl.UInt32))
        numbered = ops.slice(known).filter(pl.col("Sequence number") >= 0)
        forward = numbered.filter(pl.col("Fwd thread id") == 0).select("Sequence number", "ts", forward="id").sort("ts")
        backward = numbered.filter(pl.col("Fwd thread id") > 0).select("Sequence number", "ts", "order").sort("ts")
        earlier = self._before.join(backward, on="Sequence number", how="semi", maintain_order="left")
        both = pl.concat([earlier, forward])
        pairs = backward.join_asof(both, on="ts", by="Sequence number", strategy="backward", check_sortedness=False)
        self._keep(forward)
        return ops.join(pairs.select("order", "forward"), on="order", how="left", maintain_order="left")

    def _keep(self, forward: pl.DataFrame) -> None:
        """Keep the last operator of each number, in order of time."""
        self._before = pl.concat([self._before, forward])
        if self._before.height > 2 * self._distinct:
            self._before = self._before.unique("Sequence number", keep="last", maintain_order=True)
            self._distinct = self._before.height
