"""The host side of a trace: operators, runtime calls, annotations and Python frames, with what encloses them."""

from __future__ import annotations

import dataclasses
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.pytorch import link
from kerneldb.ingest.pytorch.collect import Collector

MODULE_PREFIX: Final = "nn.Module: "
STEP_PREFIX: Final = "ProfilerStep"
SLICE_ROWS: Final = 1 << 17
RANGE, OP, API, MEMORY, GPU = range(5)
ENCLOSED: Final = ("op", "annotation", "module", "python", "depth")


@dataclasses.dataclass(slots=True)
class Host:
    """Frames of the host side, each with its id column equal to its row position.

    `ops`, `apis` and `memory` carry `op`, `annotation`, `module`, `python` (row positions, NULL where none encloses
    them); `ranges` holds annotations, frames and spans of all other categories, with `path`, `phase` and `is_gpu`.
    """

    ops: pl.DataFrame
    apis: pl.DataFrame
    ranges: pl.DataFrame
    memory: pl.DataFrame


def read_host(collected: Collector) -> Host:
    """Build the host side from what was collected."""
    ops = _frame(collected, "op")
    apis = _frame(collected, "api")
    ranges = _ranges(collected)
    memory = _frame(collected, "memory")
    enclosing = _enclose(ops, apis, ranges, memory, collected.window_end_ns)
    ranges = _paths(_joined(ranges, enclosing, RANGE))
    apis = _across_threads(_joined(apis, enclosing, API), ranges, collected)
    ops = _forward(_joined(ops, enclosing, OP))
    return Host(ops, apis, ranges, _joined(memory, enclosing, MEMORY))


def _frame(collected: Collector, group: str) -> pl.DataFrame:
    frame = collected.frame(group)
    if frame is None:
        return pl.DataFrame(schema={"order": pl.UInt32, "thread": pl.UInt32, "ts": pl.Int64, "dur": pl.Int64, **CODES})
    present = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("ts", "dur") if name not in frame.columns]
    return frame.with_columns(present)


CODES: Final = dict.fromkeys(("call", "api", "label"), pl.UInt32())


def api_labels(collected: Collector) -> pl.DataFrame:
    """Code of a runtime call → category, name and launch arguments."""
    rows = collected.apis.rows()
    names = ("cat", "name", "grid", "block", "shared", "kind", "sync")
    kinds = (pl.String, pl.String, pl.String, pl.String, pl.Int64, pl.String, pl.String)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    made = {
        name: pl.Series(column, dtype=kind, strict=False)
        for name, kind, column in zip(names, kinds, columns, strict=True)
    }
    return pl.DataFrame({"api": pl.Series(range(len(rows)), dtype=pl.UInt32), **made})


def _labelled(frame: pl.DataFrame, key: str, labels: pl.DataFrame) -> pl.DataFrame:
    return frame.join(labels, on=key, how="left", maintain_order="left")


def _ranges(collected: Collector) -> pl.DataFrame:
    rows = collected.labels.rows()
    labels = pl.DataFrame(
        {
            "label": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "cat": pl.Series([row[0] for row in rows], dtype=pl.String),
            "name": pl.Series([row[1] for row in rows], dtype=pl.String),
        }
    )
    parts = [_frame(collected, "range"), _frame(collected, "other")]
    frame = pl.concat([part.drop("order") for part in parts], how="diagonal_relaxed").with_row_index("order")
    return _labelled(frame, "label", labels).with_columns(
        kind=pl.when(pl.col("cat") == "user_annotation")
        .then(link.ANNOTATION)
        .when(pl.col("cat") != "python_function")
        .then(None)
        .when(pl.col("name").str.starts_with(MODULE_PREFIX))
        .then(link.MODULE)
        .otherwise(link.PYTHON)
    )


def end_of(until: int | None) -> pl.Expr:
    """The end of an event; one whose duration is refused, or not known, encloses nothing."""
    return times.kept_time("ts") + times.kept_duration("ts", pl.col("dur"), until).fill_null(0)


def _items(frame: pl.DataFrame, source: int, kind: pl.Expr, until: int | None = None) -> pl.DataFrame:
    end, ts = end_of(until).alias("end"), times.kept_time("ts").alias("ts")
    chosen = frame.select("thread", ts, end, kind.cast(pl.Int8).alias("kind"), index="order")
    return chosen.with_columns(source=pl.lit(source, dtype=pl.UInt8)).drop_nulls(("ts", "kind"))


def _enclose(
    ops: pl.DataFrame, apis: pl.DataFrame, ranges: pl.DataFrame, memory: pl.DataFrame, until: int | None
) -> pl.DataFrame:
    items = pl.concat(
        [
            _items(ranges, RANGE, pl.col("kind")),
            _items(ops, OP, pl.lit(link.OP), until),
            _items(apis, API, pl.lit(link.CALL), until),
            _items(memory.with_columns(dur=pl.lit(0)), MEMORY, pl.lit(link.CALL)),
        ]
    )
    return enclosing_of(items)


def enclosing_of(items: pl.DataFrame) -> pl.DataFrame:
    """Sort `items` (thread, ts, end, kind, index, source) and add what encloses each, NULL for nothing."""
    ordered = items.sort("thread", "ts", "end", "kind", "index", descending=[False, False, True, False, False])
    encloser = link.Encloser()
    found = [_enclosed(encloser, part) for part in ordered.iter_slices(SLICE_ROWS)]
    enclosing = pl.concat([_enclosed(encloser, ordered.clear()), *found])
    missing = [pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ENCLOSED[:-1]]
    return ordered.select("source", pl.col("index").alias("order")).hstack(enclosing).with_columns(missing)


def _enclosed(encloser: link.Encloser, part: pl.DataFrame) -> pl.DataFrame:
    columns = (part[name].to_list() for name in ("thread", "ts", "end", "kind", "index"))
    entries = encloser.feed(zip(*columns, strict=True))
    return pl.DataFrame(
        [
            pl.Series(name, [entry[position] for entry in entries], dtype=pl.Int32)
            for position, name in enumerate(ENCLOSED, start=1)
        ]
    )


def _joined(frame: pl.DataFrame, enclosing: pl.DataFrame, source: int) -> pl.DataFrame:
    mine = enclosing.filter(pl.col("source") == source).drop("source").sort("order")
    if mine.height == frame.height:
        return frame.hstack(mine.drop("order"))
    return frame.join(mine, on="order", how="left", maintain_order="left")


def _paths(ranges: pl.DataFrame) -> pl.DataFrame:
    """Path and phase of each annotation. The phase is the outermost annotation below the profiler's step."""
    paths: dict[int, tuple[str, str | None]] = {}
    notes = ranges.filter(pl.col("kind") == link.ANNOTATION).sort(
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
    notes = ranges.filter(pl.col("kind") == link.ANNOTATION)
    bare = apis.filter(pl.col("annotation").is_null())
    if notes.is_empty() or bare.is_empty():
        return apis
    pids: dict[object, int] = {}
    process = pl.DataFrame(
        {
            "thread": pl.Series(range(len(collected.threads.rows())), dtype=pl.UInt32),
            "pid": [pids.setdefault(pid, len(pids)) for pid, _ in collected.threads.rows()],
        }
    )
    items = pl.concat(
        [_items(notes, RANGE, pl.col("kind")), _items(bare, API, pl.lit(link.CALL), collected.window_end_ns)]
    )
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
