"""Gathers the events of all chunks in narrow columns.

Repeated texts become codes, so that memory grows by tens of bytes an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.pytorch import fields
from kerneldb.ingest.pytorch.decode import Chunk

COLLECTIVE: Final = tuple(fields.COLLECTIVE)
TRITON: Final = fields.TRITON
CALL: Final = ("name", "Input Dims", "Input Strides", "Input type", "Concrete Inputs", *TRITON, *COLLECTIVE)
GPU_TEXT: Final = ("cat", "name", "kind", "grid", "block", "occupancy")
API_TEXT: Final = ("cat", "name", "grid", "block", "shared memory", "kind", "kernel")
SYNC_TEXT: Final = ("cat", "name", "cuda_sync_kind")
RANGE_TEXT: Final = ("cat", "name")
THREAD: Final = ("pid", "tid")
OP_NOTES: Final = ("Call stack", "Module Hierarchy", *fields.EXCHANGE)

WINDOW_END: Final = "Record Window End"
"""The mark that Kineto sets where the recording ends; merged traces have several."""

CounterEvent = tuple[str | None, str | None, int | None, str | None]
"""Name, process, ns and arguments (JSON) of a counter event."""


class Interner:
    """Maps distinct rows of `columns` to codes 0, 1, …; missing columns count as NULL."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._codes: dict[tuple[Any, ...], int] = {}

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """The codes of the rows of `frame`, as UInt32, in order."""
        present = [name for name in self.columns if name in frame.columns]
        keys = frame.select(present)
        distinct = keys.unique(maintain_order=True)
        codes = pl.Series("code", [self._code(row) for row in distinct.iter_rows(named=True)], dtype=pl.UInt32)
        if distinct.height == 1:
            return pl.repeat(codes[0], frame.height, dtype=pl.UInt32, eager=True).alias("code")
        joined = keys.join(distinct.hstack([codes]), on=present, how="left", nulls_equal=True, maintain_order="left")
        return joined["code"]

    def _code(self, row: dict[str, Any]) -> int:
        return self._codes.setdefault(tuple(row.get(name) for name in self.columns), len(self._codes))

    def rows(self) -> list[tuple[Any, ...]]:
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
        self.threads = Interner(THREAD)
        self.calls = Interner(CALL)
        self.notes = Interner(OP_NOTES)
        self.kernels = Interner(GPU_TEXT)
        self.collectives = Interner((*COLLECTIVE, "Seq"))
        self.apis = Interner(API_TEXT)
        self.syncs = Interner(SYNC_TEXT)
        self.labels = Interner(RANGE_TEXT)
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

    def add(self, chunk: Chunk) -> None:
        """Take the events of one chunk."""
        self.events += chunk.events
        self.repaired += chunk.repaired
        self.lost += chunk.lost
        self.examples += chunk.examples[: 3 - len(self.examples)]
        self.skipped.update(chunk.skipped)
        self.unread.update(chunk.unread)
        self.old_categories |= chunk.old_categories
        self._take_meta(chunk.meta)
        for group, frame in chunk.groups.items():
            missing = frame["ts"].null_count()
            if missing:
                self.untimed[group] += missing
            self._frames.setdefault(group, []).append(_NARROW[group](self, frame))

    def _take_meta(self, meta: pl.DataFrame) -> None:
        """Count names and marks; keep counters as Python values, since a slice of strings would pin the whole chunk."""
        counted = meta.group_by("ph", pl.col("name").fill_null("?")).len()
        self.marks.update({(phase, name): n for phase, name, n in counted.iter_rows()})
        ends = meta.filter(pl.col("name") == WINDOW_END)["ts"].drop_nulls().to_list()
        self.window_end_ns = max([*ends, *([] if self.window_end_ns is None else [self.window_end_ns])], default=None)
        self.counters += meta.filter(pl.col("ph") == "C").select("name", "pid", "ts", "args").iter_rows()

    def frame(self, group: str) -> pl.DataFrame | None:
        """All rows of `group` in file order with their position `order`, or None where there is none."""
        frames = self._frames.pop(group, None)
        if frames is None:
            return None
        return pl.concat(frames, how="diagonal", rechunk=True).with_row_index("order")

    def thread_code(self, frame: pl.DataFrame) -> pl.Series:
        """Codes of (pid, tid)."""
        return self.threads.encode(frame).alias("thread")

    def _ops(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = _renamed(frame, {"Input dims": "Input Dims", "external id": "External id"})
        columns = [self.thread_code(frame), self.calls.encode(frame).alias("call")]
        if any(name in frame.columns for name in OP_NOTES):
            columns.append(self.notes.encode(frame).alias("note"))
        kept = ["ts", "dur", "External id", "Record function id", "Sequence number", "Fwd thread id", "flops"]
        return _pick(frame, kept).hstack(columns)

    def _gpu(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = _renamed(frame, {"external id": "External id"})
        columns = [self.thread_code(frame), self.kernels.encode(frame).alias("kernel")]
        if "Collective name" in frame.columns:
            columns.append(self.collectives.encode(frame).alias("collective"))
        kept = [
            "ts", "dur", "External id", "correlation", "device", "stream", "context", "queued", "bytes", "size",
            "registers per thread", "shared memory", "est. achieved occupancy %", "blocks per SM", "warps per SM",
            "graph id", "graph node id", "toDevice", "inDevice",
        ]  # fmt: skip
        # XPU prints a hexadecimal handle, which is no context number.
        context = pl.col("context").cast(pl.Int64, strict=False)
        return _pick(frame.with_columns(context), kept).hstack(columns)

    def _api(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = _renamed(frame, {"external id": "External id"})
        columns = [self.thread_code(frame), self.apis.encode(frame).alias("api")]
        kept = ["ts", "dur", "External id", "correlation", "stream", "bytes", "size"]
        return _pick(frame, kept).hstack(columns)

    def _syncs(self, frame: pl.DataFrame) -> pl.DataFrame:
        columns = [self.thread_code(frame), self.syncs.encode(frame).alias("sync")]
        numbers = [name for name in fields.SYNC_ARGS if name not in SYNC_TEXT]
        return _pick(frame, ["ts", "dur", *numbers]).hstack(columns)

    def _ranges(self, frame: pl.DataFrame) -> pl.DataFrame:
        columns = [self.thread_code(frame), self.labels.encode(frame).alias("label")]
        frame = frame.with_columns(pl.col("finished") != "false")
        kept = ["ts", "dur", "finished", "args"]
        return _detached(_pick(frame, kept)).hstack(columns)

    def _memory(self, frame: pl.DataFrame) -> pl.DataFrame:
        address = pl.col("Addr").cast(pl.UInt64, strict=False)
        return _pick(frame.with_columns(address), ["ts", *fields.MEMORY_ARGS]).hstack([self.thread_code(frame)])

    def _other(self, frame: pl.DataFrame) -> pl.DataFrame:
        columns = [self.thread_code(frame), self.labels.encode(frame).alias("label")]
        return _detached(_pick(frame, ["ts", "dur", "args"])).hstack(columns)


_NARROW: Final = {
    "op": Collector._ops,
    "gpu": Collector._gpu,
    "api": Collector._api,
    "sync": Collector._syncs,
    "range": Collector._ranges,
    "memory": Collector._memory,
    "other": Collector._other,
}


def _detached(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with strings of its own: columns cut from a chunk keep all of the chunk's text alive."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(pl.Series(name, frame[name].to_list(), dtype=pl.String) for name in texts)


def _pick(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """`ts`, and those of `names` that are there and not wholly NULL."""
    present = [
        name for name in names if name in frame.columns and (name == "ts" or frame[name].null_count() < frame.height)
    ]
    return frame.select(present)


def _renamed(frame: pl.DataFrame, spellings: dict[str, str]) -> pl.DataFrame:
    """Fold older spellings of an argument into the current one."""
    for old, new in spellings.items():
        if old in frame.columns:
            merged = pl.coalesce(new, old).alias(new) if new in frame.columns else pl.col(old).alias(new)
            frame = frame.with_columns(merged).drop(old)
    return frame
