"""Which operator, annotation and Python frame encloses what, and which call launched which GPU activity.

Rule (measured on 89 GPU traces of torch 1.8-2.13): activity → runtime or driver event of the same correlation →
innermost operator on that thread whose interval contains the call. `External id` is a fallback only, and only where
it is not a copy of the correlation, as torch 2.0-2.3 wrote it.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.nesting import ANNOTATION, CALL, MODULE, OP, PYTHON, enclosing_of

MODULE_PREFIX: Final = "nn.Module: "
NATIVE_PREFIX: Final = "<built-in "
"""Frames of functions that are not written in Python have no line, and often the address of an object."""
STEP_PREFIX: Final = "ProfilerStep"
RANGE, OPERATOR, API, MEMORY, GPU = range(5)


@dataclasses.dataclass(slots=True)
class Host:
    """Frames of the host side, each with its id column equal to its row position.

    `ops`, `apis` and `memory` carry `op`, `annotation`, `module`, `python` (row positions, NULL where none encloses
    them); `ranges` holds annotations, frames and spans of all other categories, with `path`, `phase` and `is_gpu`;
    `syncs` the waits and events of the streams.
    """

    ops: pl.DataFrame
    apis: pl.DataFrame
    ranges: pl.DataFrame
    memory: pl.DataFrame
    syncs: pl.DataFrame


def read_host(collected: Collector) -> Host:
    """Build the host side from what was collected."""
    ops = _frame(collected, "op")
    apis = _frame(collected, "api")
    ranges = _ranges(collected)
    memory = _frame(collected, "memory")
    until = collected.window_end_ns
    items = [
        _items(ranges, RANGE, pl.col("kind")),
        _items(ops, OPERATOR, pl.lit(OP), until),
        _items(apis, API, pl.lit(CALL), until),
        _items(memory.with_columns(dur=pl.lit(0)), MEMORY, pl.lit(CALL)),
    ]
    enclosing = enclosing_of(pl.concat(items))
    ranges = _paths(_joined(ranges, enclosing, RANGE))
    apis = _across_threads(_joined(apis, enclosing, API), ranges, collected)
    ops = _forward(_joined(ops, enclosing, OPERATOR))
    lines = _lines(ranges)
    ops, apis = (frame.with_columns(python=lines.gather(frame["python"])) for frame in (ops, apis))
    return Host(ops, apis, ranges, _joined(memory, enclosing, MEMORY), _frame(collected, "sync"))


def _lines(ranges: pl.DataFrame) -> pl.Series:
    """Of each frame its position, or that of the nearest frame around it that has a source line where it has none."""
    own, above = ranges["order"].cast(pl.Int32), ranges["python"].cast(pl.Int32)
    stays = ~ranges["name"].str.starts_with(NATIVE_PREFIX).fill_null(value=False) | above.is_null()
    lines = own.zip_with(stays, above)
    while not (further := lines.gather(lines)).equals(lines):
        lines = further
    return lines


def _frame(collected: Collector, group: str) -> pl.DataFrame:
    frame = collected.frame(group)
    if frame is None:
        codes = dict.fromkeys(("order", "thread", "call", "api", "label", "sync"), pl.UInt32)
        return pl.DataFrame(schema={**codes, "ts": pl.Int64, "dur": pl.Int64})
    absent = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("ts", "dur") if name not in frame.columns]
    return frame.with_columns(absent)


def api_labels(collected: Collector) -> pl.DataFrame:
    """Code of a runtime call → category, name and launch arguments."""
    table = collected.apis.table("api", "cat", "name", "grid", "block", "shared", "kind", "kernel")
    return table.with_columns(pl.col("shared").cast(pl.Int64, strict=False))


def _ranges(collected: Collector) -> pl.DataFrame:
    labels = collected.labels.table("label", "cat", "name")
    parts = [_frame(collected, "range"), _frame(collected, "other")]
    frame = pl.concat([part.drop("order") for part in parts], how="diagonal_relaxed").with_row_index("order")
    return frame.join(labels, on="label", how="left", maintain_order="left").with_columns(
        kind=pl.when(pl.col("cat") == "user_annotation")
        .then(ANNOTATION)
        .when(pl.col("cat") != "python_function")
        .then(None)
        .when(pl.col("name").str.starts_with(MODULE_PREFIX))
        .then(MODULE)
        .otherwise(PYTHON)
    )


def end_of(until: int | None) -> pl.Expr:
    """The end of an event; one whose duration is refused, or not known, encloses nothing."""
    return times.kept_time("ts") + times.kept_duration("ts", pl.col("dur"), until).fill_null(0)


def _items(frame: pl.DataFrame, source: int, kind: pl.Expr, until: int | None = None) -> pl.DataFrame:
    end, ts = end_of(until).alias("end"), times.kept_time("ts").alias("ts")
    chosen = frame.select("thread", ts, end, kind.cast(pl.Int8).alias("kind"), index="order")
    return chosen.with_columns(source=pl.lit(source, dtype=pl.UInt8)).drop_nulls(("ts", "kind"))


def _joined(frame: pl.DataFrame, enclosing: pl.DataFrame, source: int) -> pl.DataFrame:
    mine = enclosing.filter(pl.col("source") == source).drop("source").sort("order")
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


def _forward(ops: pl.DataFrame) -> pl.DataFrame:
    """Link each backward operator to the last started forward operator of its sequence number: that one made the node.

    Source: `generateForwardBackwardLinks` in torch/csrc/profiler/collection.cpp.
    """
    if "Sequence number" not in ops.columns or "Fwd thread id" not in ops.columns:
        return ops.with_columns(forward=pl.lit(None, dtype=pl.UInt32))
    numbered = ops.filter(pl.col("Sequence number") >= 0)
    forward = numbered.filter(pl.col("Fwd thread id") == 0).select("Sequence number", "ts", forward="order").sort("ts")
    backward = numbered.filter(pl.col("Fwd thread id") > 0).select("Sequence number", "ts", "order").sort("ts")
    pairs = backward.join_asof(forward, on="ts", by="Sequence number", strategy="backward", check_sortedness=False)
    return ops.join(pairs.select("order", "forward"), on="order", how="left", maintain_order="left")
