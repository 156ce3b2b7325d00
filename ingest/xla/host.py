"""Threads of the host: annotations, spans of XLA and Python frames as ranges; driver calls; allocations.

What the program itself annotated (`jax.profiler.TraceAnnotation`, `StepTraceAnnotation`) looks like XLA's own spans.
It is what lies in none of those, and is not spelled like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest import digits
from kerneldb.ingest.columns import Schema, frame_of, schema
from kerneldb.ingest.output import Output
from kerneldb.ingest.privacy import public
from kerneldb.ingest.pytorch.nesting import ANNOTATION, CALL, OP, PYTHON, enclosing_of
from kerneldb.ingest.xla.recording import Event, Plane
from kerneldb.ingest.xla.rows import integer

XLA_SPAN: Final = re.compile(
    r".*(::|:XLA GPU module$)|(PjitFunction|PJRT_|PjRt|Pjrt|Xla|Thunk|ParseArguments|Handle input|Build buffer|"
    r"Resolve constant|Wait for |Allocate|ComputeSemaphore|GetEvent|command_buffer|backend_compile|BUFFER_FLUSH|"
    r"Memory(A|Dea)llocation|<|Execut|Launch|ThreadpoolListener|TfrtCpu|ThunkExecutor|(cu|cuda|hip)[A-Z])"
)
FRAME: Final = re.compile(r"\$.+")
GRAPH_NAME: Final = re.compile(r"(.*?) \(((?:Cuda|Hip)Graph:\d+)\)")
CALL_NAME: Final = re.compile(r"(?:cu|cuda|hip|hsa)_?[A-Z]|(?i:mem(?:cpy|set))")
LAUNCH: Final = "LaunchKernel"
"""A call that launches one kernel: XLA names it like the kernel, whichever of the driver's functions it is.

Source: openxla/xla, cupti_tracer.cc, AddKernelEventUponApiExit.
"""
MEMORY: Final = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
ALLOCATOR: Final = re.compile(r"GPU_(\d+)")
STEP: Final = "step_num"
SPANS: Final[Schema] = {
    **schema("name process thread start_ns duration_ns details"),
    **{"kind": pl.String, "step": pl.Boolean, "code": pl.Int8, "thread_code": pl.UInt32},
}
CALLS: Final[Schema] = schema("kind name process thread start_ns duration_ns correlation_id details")
ALLOCATIONS: Final[Schema] = {
    **schema("process thread ts_ns"),
    "address": pl.String,
    **schema("bytes device_type device total_allocated_bytes total_reserved_bytes"),
}
KINDS: Final = {ANNOTATION: "user_annotation", OP: "xla", PYTHON: "python_function"}


class Host:
    """The threads of a profile. `calls` are driver calls with what encloses them, `ranges` have path and phase."""

    def __init__(self, planes: Iterable[Plane], output: Output, numbers: Mapping[tuple[str, int], int]) -> None:
        self._numbers = numbers
        self._spans: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._memory: list[tuple[Any, ...]] = []
        self._threads: dict[tuple[str, str], int] = {}
        self.events = 0
        for plane in planes:
            for line in plane.lines:
                for event in line.events:
                    self._take(event, plane, line.name)
        spans = _classified(frame_of(self._spans, SPANS))
        calls = frame_of(self._calls, CALLS)
        self.ranges, self.calls = _nested(spans, calls, self._threads)
        self._write(output)

    def _take(self, event: Event, plane: Plane, thread: str) -> None:
        self.events += 1
        process, stats, start = plane.name, event.stats, times.fitting(event.start_ns)
        duration = times.fitting(event.duration_ns)
        sign = MEMORY.get(event.name)
        if sign is not None:
            self._memory.append(self._allocation(event, sign, plane, thread))
        elif "correlation_id" in stats:
            named = GRAPH_NAME.fullmatch(event.name)
            name, note = (named[1], named[2]) if named else (event.name, stats.get("memcpy_details"))
            if CALL_NAME.match(name) is None:
                name, note = LAUNCH, name
            kind = "driver" if re.match(r"cu[A-Z]", name) else "runtime"
            correlation = integer(stats["correlation_id"]) or None
            self._calls.append((kind, name, process, thread, start, duration, correlation, note))
        else:
            step = STEP in stats
            own = step or ("_src" not in stats and XLA_SPAN.match(event.name) is None)
            code = PYTHON if FRAME.fullmatch(event.name) else ANNOTATION if own else OP
            details = json.dumps({key: _plain(value) for key, value in public(stats).items()}) if stats else None
            number = self._threads.setdefault((process, thread), len(self._threads))
            self._spans.append((event.name, process, thread, start, duration, details, None, step, code, number))

    def _allocation(self, event: Event, sign: int, plane: Plane, thread: str) -> tuple[Any, ...]:
        stats = event.stats
        bytes_, total, reserved = (
            integer(stats.get(name)) for name in ("allocation_bytes", "bytes_allocated", "bytes_reserved")
        )
        found = ALLOCATOR.match(str(stats.get("allocator_name", "")))
        number = digits.whole(found[1]) if found else None
        where = ("cuda", self._numbers.get((plane.host, number), number)) if number is not None else ("cpu", None)
        address = stats.get("addr")
        place = f"0x{integer(address) or 0:x}" if address is not None else None
        size = None if bytes_ is None else sign * bytes_
        return (plane.name, thread, times.fitting(event.start_ns), place, size, *where, total, reserved)

    def _write(self, output: Output) -> None:
        output.saw(self.ranges.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns")))
        output.saw(self.calls.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns")))
        output.write("ranges", self.ranges.drop("code", "thread_code", "step", "phase"))
        output.write("api_calls", self.calls.drop("python_line"))
        memory = frame_of(self._memory, ALLOCATIONS)
        rows = memory.with_row_index("event_index").cast({"event_index": pl.Int64})
        output.write("memory_events", rows)
        for what, frame in (("ranges", self.ranges), ("API calls", self.calls), ("allocations and releases", rows)):
            output.report.add("stored", what, frame.height)


def _plain(value: object) -> object:
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


def _items(frame: pl.DataFrame, source: int, code: pl.Expr) -> pl.DataFrame:
    start = times.kept_time("start_ns")
    end = start + times.kept_duration("start_ns", pl.col("duration_ns")).fill_null(0)
    chosen = frame.select("thread_code", start.alias("ts"), end.alias("end"), code.cast(pl.Int8).alias("kind"))
    rows = chosen.rename({"thread_code": "thread"}).with_row_index("index")
    return rows.select("thread", "ts", "end", "kind", "index", source=pl.lit(source, dtype=pl.UInt8)).drop_nulls("ts")


def _enclosing(frame: pl.DataFrame, found: pl.DataFrame, source: int) -> pl.DataFrame:
    """`frame` with op, annotation, module, python and depth, the places of what encloses each row."""
    mine = found.filter(pl.col("source") == source).drop("source")
    numbered = frame.with_row_index("order")
    return numbered.join(mine, on="order", how="left", maintain_order="left").drop("order")


def _classified(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans in order, those inside XLA's own counted as XLA's."""
    ordered = spans.sort("thread_code", "start_ns", -pl.col("duration_ns"), maintain_order=True, nulls_last=True)
    around = _enclosing(ordered, enclosing_of(_items(ordered, 0, pl.col("code"))), 0)
    inside = (pl.col("code") == ANNOTATION) & pl.col("op").is_not_null() & ~pl.col("step")
    code = pl.when(inside).then(OP).otherwise("code").cast(pl.Int8).alias("code")
    return around.with_columns(code).select(*SPANS)


def _nested(
    spans: pl.DataFrame, calls: pl.DataFrame, threads: dict[tuple[str, str], int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `ranges` and `api_calls` without trace_id, and beside them phase, path and Python line."""
    codes = frame_of([(*key, code) for key, code in threads.items()], THREADS)
    calls = calls.join(codes, on=["process", "thread"], how="left", maintain_order="left")
    items = pl.concat([_items(spans, 0, pl.col("code")), _items(calls.fill_null(0), 1, pl.lit(CALL))])
    found = enclosing_of(items)
    spans, calls = _enclosing(spans, found, 0), _enclosing(calls, found, 1)
    parent = pl.max_horizontal("op", "annotation", "python").cast(pl.Int64)
    kind = pl.col("code").replace_strict(KINDS, default=None, return_dtype=pl.String)
    ranges = spans.with_row_index("range_id").with_columns(
        pl.col("range_id").cast(pl.Int64), parent_id=parent, kind=kind
    )
    named = ranges.select(pl.col("range_id").alias("python").cast(pl.Int32), python_line="name")
    calls = calls.join(named, on="python", how="left", maintain_order="left")
    columns = [*CALLS, "python_line"]
    api = calls.with_columns(range_id=pl.col("annotation").cast(pl.Int64)).select(*columns, "range_id")
    return _paths(ranges), api.with_row_index("api_index").cast({"api_index": pl.Int64})


THREADS: Final[Schema] = {**schema("process thread"), "thread_code": pl.UInt32}


def _paths(ranges: pl.DataFrame) -> pl.DataFrame:
    """Path of each range; depth; and the phase of annotations: the outermost one below a step."""
    paths: list[str] = []
    depths: list[int] = []
    phases: list[str | None] = []
    rows = ranges.select("name", "parent_id", "annotation", "code", "step").iter_rows()
    for name, parent, above, code, step in rows:
        note = above if code == ANNOTATION else None
        paths.append(f"{paths[note]}/{name}" if note is not None else name)
        depths.append(0 if parent is None else depths[parent] + 1)
        outer = phases[above] if above is not None else None
        phases.append(outer or (name if code == ANNOTATION and not step else None))
    kept = ranges.drop("op", "annotation", "module", "python", "depth")
    return kept.with_columns(
        path=pl.Series(paths, dtype=pl.String),
        depth=pl.Series(depths, dtype=pl.Int32),
        phase=pl.Series(phases, dtype=pl.String),
    )
