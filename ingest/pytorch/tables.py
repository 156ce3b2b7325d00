"""Host frames as rows of `ops`, `api_calls`, `ranges`, `memory_events`, `samples` and `metrics`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kerneldb import gpus, repeated
from kerneldb.ingest.privacy import public
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.fields import EXCHANGE, NUMBERS
from kerneldb.ingest.pytorch.host import MODULE_PREFIX, Host, api_labels
from kerneldb.ingest.pytorch.identity import CallRow
from kerneldb.ingest.pytorch.narrow import CounterEvent
from kerneldb.ingest.pytorch.repair import arguments_of
from kerneldb.ingest.runs import Runs, gathered

FLOAT_MAX: Final = sys.float_info.max
# c10::DeviceType, c10/core/DeviceType.h
DEVICE_TYPES: Final = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 18: "hpu", 19: "mtia", 20: "privateuse1"}
# What the profiler itself writes. All else (environments, accounts, job names, notes of a program) may be private.
PUBLIC: Final = re.compile(
    r"^(?:schemaVersion|displayTimeUnit|baseTimeNanoseconds|trace_id|record_shapes|profile_memory|with_\w+|"
    r"[\w-]+_version|DISABLE_CUPTI_LAZY_REINIT)$"
)
VALUE_LIMIT: Final = 200
# kineto syncTypeString, src/CuptiActivity.cpp
SYNC_KINDS: Final = {
    "stream wait event": "stream_wait_event",
    "event sync": "event_sync",
    "stream sync": "stream_sync",
    "context sync": "context_sync",
}
SYNC_NUMBERS: Final = tuple(NUMBERS["sync"])
NO_STREAM: Final = 2**32 - 1
STRUCTURE: Final = frozenset(("traceEvents", "deviceProperties", "distributedInfo", "host_name", "pytorch_version"))
"""Keys around the events that tables are made of."""
JOB: Final = ("backend", "nccl_version", "pg_count")
"""What `distributedInfo` says beside ranks and groups."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EPOCH_NS: Final = 10**18  # 2001: later than any relative time, earlier than any trace
TOOLS: Final = (
    ("cupti_version", "CUPTI"),
    ("rocprofiler-sdk_version", "rocprofiler-sdk"),
    ("roctracer_version", "roctracer"),
    ("pti_version", "PTI"),
)


def _threaded(frame: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    threads = collected.threads.table("thread", "process_name", "thread_name")
    return frame.join(threads, on="thread", how="left", maintain_order="left")


def _column(frame: pl.DataFrame, name: str, kind: type[pl.DataType] = pl.Int64) -> pl.Expr:
    return pl.col(name).cast(kind, strict=False) if name in frame.columns else pl.lit(None, dtype=kind)


def op_labels(collected: Collector, calls: Sequence[CallRow]) -> dict[str, pl.DataFrame]:
    """Column of codes in the frame of operators → what its codes stand for."""
    identities = [(call["call_id"], call["op"]) for call in calls]
    table = pl.DataFrame(identities, schema={"call_id": pl.String, "name": pl.String}, orient="row")
    notes = _notes(collected)
    return {
        "thread": _thread_labels(collected),
        "call": repeated.coded(table).with_row_index("call"),
        "note": notes.with_columns(repeated.coded(notes.select("stack_note", "exchange"))),
    }


def _thread_labels(collected: Collector) -> pl.DataFrame:
    return repeated.coded(collected.threads.table("thread", "process_name", "thread_name"))


def api_call_labels(collected: Collector) -> dict[str, pl.DataFrame]:
    """Column of codes in the frame of runtime calls → what its codes stand for."""
    labels = api_labels(collected).select("api", "name", "cat", details=pl.coalesce("kind", "kernel"))
    return {"thread": _thread_labels(collected), "api": repeated.coded(labels)}


def _labelled(rows: pl.DataFrame, labels: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Rows with what their codes stand for: the tables of `labels` are in the order of their codes."""
    return rows.hstack([
        column for code, table in labels.items() for column in gathered(table.drop(code), rows[code]).get_columns()
    ])  # fmt: skip


def op_rows(ops: pl.DataFrame, labels: Mapping[str, pl.DataFrame], frames: pl.Series) -> pl.DataFrame:
    """Rows of `ops` without trace_id. `labels` are those of all operators, `frames` the names of all ranges."""
    if "note" not in ops.columns:
        ops = ops.with_columns(note=pl.lit(None, dtype=pl.UInt32))
    ops = _labelled(ops, labels)
    ops = ops.with_columns(frames.gather(ops[key]).alias(f"{key}_name") for key in ("module", "python"))
    return ops.select(
        pl.col("name"),
        "call_id",
        op_id=pl.col("id").cast(pl.Int64),
        process="process_name",
        thread=pl.col("thread_name"),
        start_ns="ts",
        duration_ns="dur",
        parent_id="op_id",
        depth="depth",
        range_id="range_id",
        external_id=_column(ops, "External id"),
        record_function_id=_column(ops, "Record function id"),
        sequence_number=_column(ops, "Sequence number"),
        forward_thread=_column(ops, "Fwd thread id"),
        forward_op_id=pl.col("forward").cast(pl.Int64),
        module=pl.coalesce(pl.col("module_name").str.strip_prefix(MODULE_PREFIX), "module_note"),
        python_line="python_name",
        call_stack="stack_note",
        recorded_flops=_column(ops, "flops", pl.Float64),
        details="exchange",
    )


def _notes(collected: Collector) -> pl.DataFrame:
    """Code of a note → call stack, module, and what the operator says of its collective, as JSON."""
    rows = collected.notes.rows()
    said = [{key: given for key, given in zip(EXCHANGE, row[2:], strict=True) if given is not None} for row in rows]
    return pl.DataFrame(
        {
            "note": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "stack_note": pl.Series([row[0] or None for row in rows], dtype=pl.String),
            "module_note": pl.Series([row[1] or None for row in rows], dtype=pl.String),
            "exchange": pl.Series([json.dumps(one) if one else None for one in said], dtype=pl.String),
        }
    )


def api_rows(apis: pl.DataFrame, labels: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Rows of `api_calls` without trace_id. `labels` are those of all calls."""
    apis = _labelled(apis, labels)
    return apis.select(
        "name",
        api_index=pl.col("id").cast(pl.Int64),
        kind="cat",
        process="process_name",
        thread="thread_name",
        start_ns="ts",
        duration_ns="dur",
        correlation_id=_column(apis, "correlation"),
        external_id=_column(apis, "External id"),
        op_id="op_id",
        range_id="range_id",
        bytes=pl.coalesce(_column(apis, "bytes"), _column(apis, "size")),
        details="details",
    )


def sync_rows(syncs: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Rows of `sync_events` without trace_id. Streams -1 and 4294967295 are no stream: a context or device waited."""
    if syncs.is_empty():
        return pl.DataFrame()
    labels = collected.syncs.table("sync", "cat", "name", "printed")
    syncs = _threaded(syncs, collected).join(labels, on="sync", how="left", maintain_order="left")
    known = {name: pl.when(_column(syncs, name).is_between(0, NO_STREAM - 1)).then(name) for name in SYNC_NUMBERS}
    said = pl.coalesce("printed", "name").fill_null("")
    kind = pl.when(pl.col("cat") == "cuda_event").then(pl.lit("event_record"))
    return syncs.with_columns(
        pl.lit(None, dtype=pl.Int64).alias(name) for name in SYNC_NUMBERS if name not in syncs.columns
    ).select(
        name=said,
        sync_index=pl.col("id").cast(pl.Int64),
        kind=kind.otherwise(said.str.to_lowercase().replace_strict(SYNC_KINDS, default=said, return_dtype=pl.String)),
        process="process_name",
        thread="thread_name",
        device=known["device"].cast(pl.Int32, strict=False),
        context=known["context"],
        stream=known["stream"],
        start_ns="ts",
        duration_ns="dur",
        correlation_id=known["correlation"],
        event_id=pl.coalesce(known["wait_on_cuda_event_id"], known["event_id"]),
        waits_on_stream=known["wait_on_stream"],
        waits_on_correlation_id=known["wait_on_cuda_event_record_corr_id"],
    )


def range_rows(host: Host, collected: Collector, numbers: Mapping[int, int]) -> pl.DataFrame:
    """Rows of `ranges` without trace_id: annotations, Python frames, and spans of categories without a table.

    `numbers`: device as recorded → as in `devices`.
    """
    ids, ranges = host.ranges["id"], _threaded(host.ranges.slice(host.open_ranges), collected)
    around = {name: ids.gather(ranges[name]) for name in ("python", "module", "annotation")}
    ranges = ranges.with_columns(**around)
    on_gpu = pl.col("cat").is_in(["gpu_user_annotation"])
    parent = pl.when(pl.col("cat") == "python_function").then(pl.coalesce("python", "module")).otherwise("annotation")
    return ranges.select(
        pl.col("name").fill_null(""),
        range_id=pl.col("id").cast(pl.Int64),
        kind=pl.col("cat").fill_null("span"),
        process="process_name",
        thread="thread_name",
        device=pl.when(on_gpu).then(pl.col("process_name").cast(pl.Int32, strict=False).replace(numbers)),
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
    memory = _threaded(memory, collected)
    kind = _column(memory, "Device Type").cast(pl.Int64)
    return memory.select(
        event_index=pl.col("id").cast(pl.Int64),
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
        op_id="op_id",
    )


def allocating(memory: Runs) -> list[int]:
    """Numbers of the GPUs that memory events name."""
    found = set[int]()
    for events in memory.each("Device Id", "Device Type"):
        if events.width == 2:  # noqa: PLR2004 (both are there)
            named = events.filter((pl.col("Device Id") >= 0) & (pl.col("Device Type") > 0))
            found.update(named["Device Id"].unique())
    return sorted(found)


def _numbers(text: str | None) -> Iterator[tuple[str, float]]:
    """The arguments that are numbers which float64 holds."""
    for key, value in arguments_of(text).items():
        if isinstance(value, float) or (isinstance(value, int) and abs(value) <= FLOAT_MAX):
            yield key, float(value)


def sample_rows(counters: Iterable[CounterEvent]) -> pl.DataFrame:
    """Rows of `samples` from counter events; a counter named by the empty string takes the event's name alone."""
    rows: list[dict[str, Any]] = []
    for name, pid, ts, text in counters:
        rows += [
            {"counter": ".".join(part for part in (name, key) if part), "process": pid, "ts_ns": ts, "value": value}
            for key, value in _numbers(text)
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def metric_rows(ranges: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` from `cuda_profiler_range` events: CUPTI counters over the range that they name."""
    if "args" not in ranges.columns:
        return pl.DataFrame()
    measured = ranges.filter((pl.col("cat") == "cuda_profiler_range") & pl.col("args").is_not_null())
    rows = [
        {"range_id": number, "metric": key, "value": value}
        for number, text in measured.select("id", "args").iter_rows()
        for key, value in _numbers(text)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def devices(metadata: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of `devices` from `deviceProperties`: all GPUs of the host, used or not."""
    listed = metadata.get("deviceProperties")
    rows = [_device(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return pl.DataFrame([row for row in rows if row["device"] is not None], infer_schema_length=None)


def _device(entry: Mapping[str, Any]) -> dict[str, Any]:
    name = str(entry.get("name") or "") or None
    vendor = gpus.vendor_of(entry)
    major, minor = _integer(entry.get("computeMajor")), _integer(entry.get("computeMinor"))
    shared = entry.get("sharedMemPerMultiprocessor", entry.get("maxSharedMemoryPerMultiProcessor"))
    return {
        "device": _integer(entry.get("id")),
        "vendor": vendor,
        "name": name,
        "arch": gpus.arch_of(vendor, name or "", major, minor),
        "multiprocessors": _integer(entry.get("numSms", entry.get("maxComputeUnits"))),
        "memory_bytes": _integer(entry.get("totalGlobalMem", entry.get("maxMemAllocSize"))),
        "warp_size": _integer(entry.get("warpSize")),
        "max_threads_per_multiprocessor": _integer(entry.get("maxThreadsPerMultiprocessor")),
        "registers_per_multiprocessor": _integer(entry.get("regsPerMultiprocessor")),
        "shared_bytes_per_multiprocessor": _integer(shared),
        "shared_bytes_per_block_optin": _integer(entry.get("sharedMemPerBlockOptin")),
        "clock_mhz": _number(entry.get("maxClockFrequency")),
        "properties": json.dumps(public(entry)),
    }


def process_groups(metadata: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of `process_groups` from `distributedInfo`."""
    job = _distributed(metadata)
    groups = job.get("pg_config")
    groups = [groups] if isinstance(groups, dict) else groups
    rows = [
        {
            "group_name": _string(group.get("pg_name")),
            "description": _string(group.get("pg_desc")),
            "backend": _string(group.get("backend_config", group.get("backend", job.get("backend")))),
            "group_size": _integer(group.get("pg_size")),
            "ranks": _string(group.get("ranks")),
        }
        for group in (groups if isinstance(groups, list) else [])
        if isinstance(group, dict)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def facts(metadata: Mapping[str, Any], keep_environment: bool) -> dict[str, Any]:
    """Columns of `traces` that the metadata fills. Environments and command lines only with `keep_environment`."""
    distributed = _distributed(metadata)
    tool = next((f"{name} {metadata[key]}" for key, name in TOOLS if key in metadata), None)
    kept = {key: value for key, value in metadata.items() if keep_environment or _public(key, value)}
    kept |= {key: distributed[key] for key in JOB if _is_short(distributed.get(key))}
    return {
        "kind": "timeline",
        "source": "pytorch",
        "tool": "torch.profiler",
        "tool_version": tool,
        "framework_version": f"torch {metadata['pytorch_version']}" if metadata.get("pytorch_version") else None,
        "rank": _integer(distributed.get("rank")),
        "world_size": _integer(distributed.get("world_size")),
        "host": _string(metadata.get("host_name")),
        "metadata": json.dumps(kept, sort_keys=True),
        "reader_version": 1,
    }


def _is_short(value: object) -> bool:
    return isinstance(value, str | int | float | bool) and len(str(value)) <= VALUE_LIMIT


def _public(key: str, value: object) -> bool:
    return _is_short(value) and PUBLIC.match(key) is not None


def unread_metadata(metadata: Mapping[str, Any], keep_environment: bool) -> dict[str, int]:
    """Keys around the events that no table has, each once."""
    if keep_environment:
        return {}
    return {key: 1 for key, value in metadata.items() if key not in STRUCTURE and not _public(key, value)}


def clock(metadata: Mapping[str, Any], start_ns: int | None) -> dict[str, Any]:
    """`clock` and `base_ns`.

    Times without a base are absolute where they look like dates; else their origin is unknown.
    """
    base = _integer(metadata.get("baseTimeNanoseconds"))
    if base is None and (start_ns is None or start_ns > EPOCH_NS):
        base = 0
    return {"clock": "capture" if base is None else "epoch", "base_ns": base}


def era(metadata: Mapping[str, Any], seen: Mapping[str, bool]) -> str | None:
    """The torch versions that write such a file, inferred from what it holds; torch itself does not write its version.

    None where neither metadata nor a mark says anything.

    `seen` says which marks the events carry: old_categories, record_function_id, copied_external_ids, strides.
    """
    if seen["old_categories"]:
        return "torch 1.8-1.10"
    if not metadata and not any(seen.values()):
        return None
    if "baseTimeNanoseconds" in metadata:
        return "torch >=2.4"
    if seen["copied_external_ids"]:
        return "torch 2.0-2.3"
    return "torch 2.3-2.4" if seen["record_function_id"] else "torch 1.11-2.3"


def _distributed(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    found = metadata.get("distributedInfo")
    return found if isinstance(found, dict) else {}


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if INT64_MIN <= number <= INT64_MAX else None


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _string(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
