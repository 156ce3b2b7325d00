"""What an export records beside GPU work and calls: synchronisation, samples of GPUs and CPUs, memory of the device.

Columns and meanings: the schema that nsys writes into its exports (`sqlite_master` of exports of 2025.3 to 2026.2, and
the section "SQLite Schema Reference" of the documentation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kerneldb.ingest.nsys.host import Calls
from kerneldb.ingest.nsys.marks import THREAD
from kerneldb.ingest.nsys.store import MAPPING, Numbering, Schema, Store, frame
from kerneldb.ingest.output import Report

PID: Final = pl.col("globalPid") // THREAD % THREAD
PLACE: Final = ("deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId")
SYNC: Final[Schema] = dict.fromkeys(("start", "end", *PLACE, "syncType"), pl.Int64) | {"deviceId": pl.Int32}
RECORD: Final[Schema] = dict.fromkeys(("timestamp", *PLACE), pl.Int64) | {"deviceId": pl.Int32}
NONE: Final = (1 << 32) - 1
"""CUPTI_SYNCHRONIZATION_INVALID_VALUE: no event, no stream."""
KINDS: Final[Mapping[str, str]] = {
    "StreamWaitEvent": "stream_wait_event",
    "EventSynchronize": "event_sync",
    "StreamSynchronize": "stream_sync",
    "(Device|Ctx|Context|Thread)Synchronize": "context_sync",
}
"""Name of the call → kind."""
TYPES: Final[Mapping[int, str]] = {1: "event_sync", 2: "stream_wait_event", 3: "stream_sync", 4: "context_sync"}
"""CUpti_ActivitySynchronizationType → kind. nsys 2025.3 and 2025.5 write 2 for cudaStreamSynchronize: see `_kind`."""
METRIC: Final[Schema] = {**dict.fromkeys(("timestamp", "typeId", "metricId"), pl.Int64), "value": pl.Float64}
METRIC_NAME: Final[Schema] = {**dict.fromkeys(("typeId", "metricId"), pl.Int64), "metricName": pl.String}
GPU_OF_TYPE: Final = 0xFF
"""The lowest byte of `typeId` is the number of the GPU (as in nsys2prv, https://pypi.org/project/nsys2prv)."""
SAMPLE: Final[Schema] = {
    **dict.fromkeys(("id", "start", "threadState", "globalTid", "cpuCycles"), pl.Int64),
    "cpu": pl.Int32,
}
FRAME: Final[Schema] = dict.fromkeys(("id", "symbol", "module", "unresolved", "stackDepth"), pl.Int64)
STATES: Final[Schema] = {"id": pl.Int64, "label": pl.String, "name": pl.String}
TAKEN: Final = "the export maps it to no process, and its number is the ordinal of another one"
SLICE_SAMPLES: Final = 1 << 15
MEMORY: Final[Schema] = {
    **dict.fromkeys(("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType"), pl.Int64),
}
MEMORY_KINDS: Final = (
    *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"),
)
"""ENUM_CUDA_MEM_KIND.label by id, where an export lacks it."""
ON_HOST: Final = ("Pageable", "Pinned")
RELEASE: Final = 1
"""`memoryOperationType` of a release; 0 is an allocation (ENUM_CUDA_DEV_MEM_EVENT_OPER)."""
MESSAGE: Final[Schema] = {"severity": pl.Int64, "text": pl.String}
WARNING: Final = 2
"""ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 information, 2 warning, 3 error, 4 fatal error."""
WARNED: Final = "nsys warned: "
PATH: Final = re.compile(r"(?<!\w)/(?:[^\s/]+/)*[^\s/]+")
LONGEST: Final = 300


def warnings(store: Store, report: Report) -> None:
    """Note what nsys warned of while it recorded, without paths."""
    for part in store.frames("DIAGNOSTIC_EVENT", MESSAGE):
        for text in part.filter(pl.col("severity") >= WARNING)["text"].drop_nulls():
            report.add("note", f"{WARNED}{PATH.sub('…', text.strip())[:LONGEST]}", 1)


def synchronisation(store: Store, calls: Calls, report: Report) -> pl.DataFrame:
    """Rows of `sync_events` without trace_id. Times are those of the host.

    A wait names the record that it waits for by event and `eventSyncId`; exports before 2024 do not have that number.
    Records whose call is not known are counted.
    """
    numbering = Numbering(store)
    records = numbering.numbered(frame(store, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", RECORD), PID)
    waits = numbering.numbered(frame(store, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", SYNC), PID)
    numbering.account("unread", "a synchronisation or record of an event", report)
    made = pl.concat([_recorded(records, calls, report), _waited(waits, _recorded_last(records), calls)])
    return made.sort("start_ns", "correlation_id", maintain_order=True).select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("sync_index"), pl.all()
    )


def _recorded(records: pl.DataFrame, calls: Calls, report: Report) -> pl.DataFrame:
    """Rows of records. What an export times of one is its completion on the GPU, which bounds no call of the host."""
    named = _with_calls(records, calls, "timestamp")
    doubtful = calls.are_ambiguous(named["pid"], named["correlationId"]).fill_null(value=False)
    report.add("lost", "call of an event record: several calls have its number", int(doubtful.sum()))
    facts = pl.col("api_call", "thread", "launch_start_ns", "launch_duration_ns")
    named = named.with_columns(pl.when(~doubtful).then(facts))
    completed = pl.when(pl.col("timestamp") > 0).then("timestamp")
    details = pl.concat_str(pl.lit('{"completed_ns": '), completed, pl.lit("}"))
    unknown = pl.lit(None, dtype=pl.Int64)
    times = (pl.col("launch_start_ns"), pl.col("launch_duration_ns"))
    return _columns(named, pl.lit("event_record"), "cudaEventRecord", times, (unknown, unknown), details)


def _waited(waits: pl.DataFrame, records: pl.DataFrame, calls: Calls) -> pl.DataFrame:
    keys = ["globalPid", "eventId", "eventSyncId"]
    named = _with_calls(waits, calls).join(records, on=keys, how="left", maintain_order="left")
    times = (pl.col("start"), pl.col("end") - pl.col("start"))
    waited = (pl.col("record_stream"), pl.col("record_correlation"))
    return _columns(named, _kind(), None, times, waited, pl.lit(None, dtype=pl.String))


def _recorded_last(records: pl.DataFrame) -> pl.DataFrame:
    """The record behind each `eventSyncId`."""
    keys = ["globalPid", "eventId", "eventSyncId"]
    known = records.filter(pl.col("eventSyncId").is_between(1, NONE - 1))
    facts = {"record_stream": "streamId", "record_correlation": "correlationId"}
    return known.select(*keys, **facts).unique(keys, keep="last", maintain_order=True)


def _with_calls(rows: pl.DataFrame, calls: Calls, start: str = "start") -> pl.DataFrame:
    rows = rows.with_columns(pid=pl.col("globalPid") // THREAD)
    return rows.hstack(calls.behind(rows["pid"], rows["correlationId"], rows[start]))


def _kind() -> pl.Expr:
    """By the name of the call, else by the type; a stream cannot wait for no event."""
    by_type = pl.col("syncType").replace_strict(TYPES, default="unknown", return_dtype=pl.String)
    nothing = (by_type == "stream_wait_event") & (pl.col("eventId") == NONE)
    kind = pl.when(nothing).then(pl.lit("stream_sync")).otherwise(by_type)
    for call, name in KINDS.items():
        kind = pl.when(pl.col("api_call").str.contains(call)).then(pl.lit(name)).otherwise(kind)
    return kind


def _columns(
    rows: pl.DataFrame,
    kind: pl.Expr,
    name: str | None,
    times: tuple[pl.Expr, pl.Expr],
    waited: tuple[pl.Expr, pl.Expr],
    details: pl.Expr,
) -> pl.DataFrame:
    def known(column: str) -> pl.Expr:
        return pl.when(pl.col(column) != NONE).then(column)

    return rows.select(
        kind=kind,
        name=pl.coalesce("api_call", pl.lit(name, dtype=pl.String)),
        process=(pl.col("pid") % THREAD).cast(pl.String),
        thread=pl.col("thread").cast(pl.String),
        device="deviceId",
        context="contextId",
        stream=known("streamId"),
        start_ns=times[0],
        duration_ns=times[1],
        correlation_id="correlationId",
        event_id=known("eventId"),
        waits_on_stream=waited[0],
        waits_on_correlation_id=waited[1],
        details=details,
    )


def gpu_metrics(store: Store, report: Report) -> Iterator[pl.DataFrame]:
    """Rows of `samples` without trace_id: a counter per metric, such as `SM Active` in %.

    A GPU without an ordinal keeps its own number, unless that is the ordinal of another one; such samples are counted.
    """
    names = frame(store, "TARGET_INFO_GPU_METRICS", METRIC_NAME).unique(["typeId", "metricId"], keep="last")
    parts = pl.col("metricName").str.extract_groups(r"^(.*?)\s*(?:\[(?:Throughput )?([^\]]*)\])?$")
    described = names.select("typeId", "metricId", counter=parts.struct.field("1"), unit=parts.struct.field("2"))
    ordinals = _ordinals(store)
    number = pl.concat_str(pl.lit("GPU metric "), "metricId")
    for part in store.frames("GPU_METRICS", METRIC):
        rows = part.join(described, on=["typeId", "metricId"], how="left", maintain_order="left")
        gpu = pl.col("typeId") & GPU_OF_TYPE
        taken = ~gpu.is_in(list(ordinals)) & gpu.is_in(list(ordinals.values()))
        report.add("unread", f"GPU of a sample: {TAKEN}", rows.select(taken.sum()).item())
        yield rows.select(
            counter=pl.coalesce("counter", number),
            device=pl.when(~taken).then(gpu.replace(ordinals)).cast(pl.Int32),
            ts_ns="timestamp",
            value="value",
            unit="unit",
        )


def _ordinals(store: Store) -> dict[int, int]:
    """Number of a GPU → its ordinal in `devices`, where all processes agree and no other GPU has it."""
    mapping = frame(store, "TARGET_INFO_CUDA_DEVICE", MAPPING).select("gpuId", "cudaId").unique().drop_nulls()
    once = mapping.filter(pl.col("gpuId").is_unique(), pl.col("cudaId").is_unique())
    return dict(once.iter_rows()) if once.height == mapping.height else {}


def cpu_samples(store: Store, strings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Rows of `cpu_samples` without trace_id, by time."""
    samples = frame(store, "COMPOSITE_EVENTS", SAMPLE).sort("start", "id")
    if samples.is_empty():
        return
    labels = frame(store, "ENUM_SAMPLING_THREAD_STATE", STATES)
    states = labels.select(threadState="id", state=pl.coalesce("label", "name")).unique("threadState")
    chains, texts = _chains(store, strings)
    for first in range(0, samples.height, SLICE_SAMPLES):
        part = samples.slice(first, SLICE_SAMPLES)
        frames = chains.join(part.select("id"), on="id", how="semi").join(texts, on="frame", how="left")
        ordered = frames.sort("id", "stackDepth", descending=[False, True])
        stacks = ordered.group_by("id").agg(stack=pl.col("text").str.join(";"), function=pl.col("text").last())
        rows = part.join(stacks, on="id", how="left", maintain_order="left")
        rows = rows.join(states, on="threadState", how="left", maintain_order="left")
        yield rows.select(
            sample_index=pl.int_range(first, first + part.height, dtype=pl.Int64),
            process=(pl.col("globalTid") // THREAD % THREAD).cast(pl.String),
            thread=(pl.col("globalTid") % THREAD).cast(pl.String),
            cpu="cpu",
            ts_ns="start",
            state="state",
            function="function",
            stack="stack",
            cycles="cpuCycles",
        )


def _chains(store: Store, strings: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Frames of all stacks (id, frame, stackDepth), and the text of each distinct frame."""
    texts = pl.DataFrame(schema={"symbol": pl.Int64, "module": pl.Int64, "unresolved": pl.Int64, "frame": pl.UInt32})
    keys = ["symbol", "module", "unresolved"]
    parts = [pl.DataFrame(schema={"id": pl.Int64, "frame": pl.UInt32, "stackDepth": pl.Int64})]
    for part in store.frames("SAMPLING_CALLCHAINS", FRAME):
        fresh = part.select(keys).unique(maintain_order=True).join(texts, on=keys, how="anti", nulls_equal=True)
        texts = pl.concat([texts, fresh.with_row_index("frame", texts.height).select(texts.columns)])
        numbered = part.join(texts, on=keys, how="left", nulls_equal=True, maintain_order="left")
        parts.append(numbered.select("id", "frame", "stackDepth"))
    known = strings.select("id", "value")
    named = texts.join(known.rename({"id": "symbol", "value": "function"}), on="symbol", how="left")
    named = named.join(known.rename({"id": "module", "value": "library"}), on="module", how="left")
    library = pl.format("[{}]", pl.col("library").str.extract(r"([^/\\]*)$").str.strip_chars("[]"))
    without = (pl.col("unresolved") == 1) | pl.col("function").is_null()
    text = pl.when(without).then(pl.coalesce(library, "function", pl.lit("[unknown]"))).otherwise("function")
    return pl.concat(parts), named.select("frame", text=text.str.replace_all(";", ",", literal=True))


def memory(store: Store, report: Report) -> Iterator[pl.DataFrame]:
    """Rows of `memory_events` without trace_id and event_index."""
    labels = frame(store, "ENUM_CUDA_MEM_KIND", {"id": pl.Int64, "label": pl.String}).drop_nulls()
    kinds = dict(enumerate(MEMORY_KINDS)) | dict(labels.iter_rows())
    numbering = Numbering(store)
    for read in store.frames("CUDA_GPU_MEMORY_USAGE_EVENTS", MEMORY):
        kind = pl.col("memKind").replace_strict(kinds, default=None, return_dtype=pl.String)
        on_host = kind.is_in(ON_HOST).fill_null(value=False)
        part = numbering.numbered(read.with_columns(pl.when(~on_host).then("deviceId")), PID)
        sign = pl.when(pl.col("memoryOperationType") == RELEASE).then(-1).otherwise(1)
        yield part.select(
            process=PID.cast(pl.String),
            ts_ns="start",
            address=pl.col("address").reinterpret(signed=False).cast(pl.String),
            bytes=pl.col("bytes") * sign,
            device_type=pl.when(on_host).then(pl.lit("cpu")).otherwise(pl.lit("cuda")),
            device=pl.col("deviceId").cast(pl.Int32),
            memory_kind=kind,
        )
    numbering.account("unread", "an allocation or release", report)
