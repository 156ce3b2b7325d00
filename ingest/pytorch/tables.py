"""Host frames as rows of `ops`, `api_calls`, `ranges`, `memory_events`, `samples` and `metrics`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.pytorch.collect import Collector, CounterEvent
from kerneldb.ingest.pytorch.decode import arguments_of
from kerneldb.ingest.pytorch.host import MODULE_PREFIX, api_labels
from kerneldb.ingest.pytorch.identity import CallRow

FLOAT_MAX: Final = sys.float_info.max
# c10::DeviceType, c10/core/DeviceType.h
DEVICE_TYPES: Final = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 18: "hpu", 19: "mtia", 20: "privateuse1"}


def thread_table(collected: Collector) -> pl.DataFrame:
    """Thread code → process and thread as printed."""
    rows = collected.threads.rows()
    return pl.DataFrame(
        {
            "thread": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "process_name": pl.Series([row[0] for row in rows], dtype=pl.String),
            "thread_name": pl.Series([row[1] for row in rows], dtype=pl.String),
        }
    )


def _threaded(frame: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    return frame.join(threads, on="thread", how="left", maintain_order="left")


def _column(frame: pl.DataFrame, name: str, kind: type[pl.DataType] = pl.Int64) -> pl.Expr:
    return pl.col(name).cast(kind, strict=False) if name in frame.columns else pl.lit(None, dtype=kind)


def op_rows(ops: pl.DataFrame, collected: Collector, calls: Sequence[CallRow], ranges: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ops` without trace_id."""
    if ops.is_empty():
        return pl.DataFrame()
    table = pl.DataFrame(
        {
            "call": pl.Series(range(len(calls)), dtype=pl.UInt32),
            "call_id": pl.Series([call["call_id"] for call in calls], dtype=pl.String),
            "name": pl.Series([call["op"] for call in calls], dtype=pl.String),
        }
    )
    frames = ranges.select(pl.col("order").cast(pl.Int32).alias("frame"), frame_name="name")
    ops = _threaded(ops, thread_table(collected)).join(table, on="call", how="left", maintain_order="left")
    for key in ("module", "python"):
        named = frames.rename({"frame": key, "frame_name": f"{key}_name"})
        ops = ops.join(named, on=key, how="left", maintain_order="left")
    ops = _noted(ops, collected)
    return ops.select(
        pl.col("name"),
        "call_id",
        op_id=pl.col("order").cast(pl.Int64),
        process="process_name",
        thread=pl.col("thread_name"),
        start_ns="ts",
        duration_ns="dur",
        parent_id=pl.col("op").cast(pl.Int64),
        depth="depth",
        range_id=pl.col("annotation").cast(pl.Int64),
        external_id=_column(ops, "External id"),
        record_function_id=_column(ops, "Record function id"),
        sequence_number=_column(ops, "Sequence number"),
        forward_thread=_column(ops, "Fwd thread id"),
        forward_op_id=pl.col("forward").cast(pl.Int64),
        module=pl.coalesce(pl.col("module_name").str.strip_prefix(MODULE_PREFIX), "module_note"),
        python_line="python_name",
        call_stack="stack_note",
        recorded_flops=_column(ops, "flops", pl.Float64),
    )


def _noted(ops: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    rows = collected.notes.rows()
    table = pl.DataFrame(
        {
            "note": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "stack_note": pl.Series([row[0] or None for row in rows], dtype=pl.String),
            "module_note": pl.Series([row[1] or None for row in rows], dtype=pl.String),
        }
    )
    if "note" not in ops.columns:
        ops = ops.with_columns(note=pl.lit(None, dtype=pl.UInt32))
    return ops.join(table, on="note", how="left", maintain_order="left")


def api_rows(apis: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Rows of `api_calls` without trace_id."""
    if apis.is_empty():
        return pl.DataFrame()
    apis = _threaded(apis, thread_table(collected)).join(
        api_labels(collected), on="api", how="left", maintain_order="left"
    )
    return apis.select(
        "name",
        api_index=pl.col("order").cast(pl.Int64),
        kind="cat",
        process="process_name",
        thread="thread_name",
        start_ns="ts",
        duration_ns="dur",
        correlation_id=_column(apis, "correlation"),
        external_id=_column(apis, "External id"),
        op_id=pl.col("op").cast(pl.Int64),
        range_id=pl.col("annotation").cast(pl.Int64),
        bytes=pl.coalesce(_column(apis, "bytes"), _column(apis, "size")),
        details=pl.coalesce("sync", "kind"),
    )


def range_rows(ranges: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Rows of `ranges` without trace_id: annotations, Python frames, and spans of categories without a table."""
    if ranges.is_empty():
        return pl.DataFrame()
    ranges = _threaded(ranges, thread_table(collected))
    on_gpu = pl.col("cat").is_in(["gpu_user_annotation"])
    parent = pl.when(pl.col("cat") == "python_function").then(pl.coalesce("python", "module")).otherwise("annotation")
    return ranges.select(
        pl.col("name").fill_null(""),
        range_id=pl.col("order").cast(pl.Int64),
        kind=pl.col("cat").fill_null("span"),
        process="process_name",
        thread="thread_name",
        device=pl.when(on_gpu).then(pl.col("process_name").cast(pl.Int32, strict=False)),
        stream=pl.when(on_gpu).then(pl.col("thread_name").str.extract(r"(\d+)$").cast(pl.Int64, strict=False)),
        start_ns="ts",
        duration_ns="dur",
        parent_id=parent.cast(pl.Int64),
        depth="depth",
        path="path",
        finished=_column(ranges, "finished", pl.Boolean),
        details=_column(ranges, "args", pl.String),
    )


def memory_rows(memory: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Rows of `memory_events` without trace_id."""
    if memory.is_empty():
        return pl.DataFrame()
    memory = _threaded(memory, thread_table(collected))
    kind = _column(memory, "Device Type").cast(pl.Int64)
    return memory.select(
        event_index=pl.col("order").cast(pl.Int64),
        process="process_name",
        thread="thread_name",
        ts_ns="ts",
        address=_column(memory, "Addr", pl.String),
        bytes=_column(memory, "Bytes"),
        total_allocated_bytes=_column(memory, "Total Allocated"),
        total_reserved_bytes=_column(memory, "Total Reserved"),
        device_type=kind.replace_strict(DEVICE_TYPES, default=kind.cast(pl.String), return_dtype=pl.String),
        device=pl.when(_column(memory, "Device Id") >= 0)
        .then(_column(memory, "Device Id"))
        .cast(pl.Int32, strict=False),
        op_id=pl.col("op").cast(pl.Int64),
    )


def _numbers(text: str | None) -> Iterator[tuple[str, float]]:
    """The arguments that are numbers which float64 holds."""
    for key, value in arguments_of(text).items():
        if isinstance(value, float) or (isinstance(value, int) and abs(value) <= FLOAT_MAX):
            yield key, float(value)


def sample_rows(counters: Sequence[CounterEvent]) -> pl.DataFrame:
    """Rows of `samples` from counter events; a counter named by the empty string takes the event's name alone."""
    rows: list[dict[str, Any]] = []
    for name, pid, ts, text in counters:
        rows += [
            {"counter": f"{name}.{key}" if key else name, "process": pid, "ts_ns": ts, "value": value}
            for key, value in _numbers(text)
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def metric_rows(ranges: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` from `cuda_profiler_range` events: CUPTI counters over the range that they name."""
    if "args" not in ranges.columns:
        return pl.DataFrame()
    measured = ranges.filter((pl.col("cat") == "cuda_profiler_range") & pl.col("args").is_not_null())
    rows = [
        {"range_id": order, "metric": key, "value": value}
        for order, text in measured.select("order", "args").iter_rows()
        for key, value in _numbers(text)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
