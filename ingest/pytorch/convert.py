"""Converts one PyTorch profiler trace into a spool: read in chunks, link, write the tables, report what was done."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest, Spool
from kerneldb.errors import NotATraceError
from kerneldb.ids import content_id
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.pytorch import repair, tables, trace
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.decode import Chunk, decode, decode_tail
from kerneldb.ingest.pytorch.host import Host, read_host
from kerneldb.ingest.pytorch.identity import CallRow, call_row
from kerneldb.ingest.pytorch.launch_rows import LaunchRows
from kerneldb.ingest.pytorch.launches import Activities, read_activities
from kerneldb.ingest.pytorch.report import Report
from kerneldb.ingest.pytorch.split import Splitter
from kerneldb.ingest.source import Source

PARSERS: Final = 2
IN_FLIGHT: Final = 3
SLICE_ROWS: Final = 1 << 18


@dataclasses.dataclass(slots=True)
class Parsed:
    """All that was read from the text: events by group, metadata around them, and whether the text was whole."""

    collected: Collector
    metadata: dict[str, Any]
    metadata_repairs: int
    truncated: bool
    trailing: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Linked:
    """The parsed trace with every link made. `calls` are the rows of `op_calls` in code order."""

    parsed: Parsed
    host: Host
    activities: Activities | None
    calls: list[CallRow]


def link(parsed: Parsed) -> Linked:
    """Link calls to operators, launches to calls, and compute the identities."""
    host = read_host(parsed.collected)
    calls = [call_row(values) for values in parsed.collected.calls.rows()]
    return Linked(parsed, host, read_activities(parsed.collected, host), calls)


def convert(source: Source, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert `source` into the spool `folder`.

    Raises NotATraceError where the text holds no events array; UnreadableTraceError where it cannot be opened.
    """
    linked = link(parse(source, progress))
    spool = Spool(folder)
    spool.guard.until(linked.parsed.collected.window_end_ns)
    trace_id = content_id("t1", source.sha256)
    statuses = _write_launches(spool, trace_id, linked)
    _write_host(spool, trace_id, linked)
    row = _trace_row(trace_id, source, linked, options)
    _write_trace(spool, row, source, linked, statuses)
    return spool.finish(row)


def parse(source: Source, progress: Progress | None = None) -> Parsed:
    """Read all events of `source`, chunk by chunk, on two threads."""
    with contextlib.closing(source.blocks()) as blocks:
        return _parse(source, Splitter(_watched(blocks, source, progress)))


def _parse(source: Source, splitter: Splitter) -> Parsed:
    if splitter.head is None:
        message = f"{source.label}: no `traceEvents` array, so this is not a PyTorch profiler trace."
        raise NotATraceError(message)
    collected = Collector()
    behind: str | None = None
    in_object, trailing = bool(splitter.head.strip()), ""
    for chunk in _decoded(splitter):
        if trailing:
            continue  # another document, read for the check sum only
        collected.add(chunk)
        behind = chunk.behind
        trailing = repair.split_end(behind, in_object)[1] if behind is not None else ""
    tail = decode_tail(splitter.tail)
    if behind is None:
        collected.add(tail)
        behind = tail.behind
    else:
        behind += "," + splitter.tail.decode("utf-8", errors="replace")
    rest, trailing = repair.split_end(behind or "", in_object)
    closed = behind is not None and (rest.endswith("}") or not in_object)
    metadata, repairs = _metadata(splitter.head, rest)
    return Parsed(collected, metadata, repairs, not closed, bool(trailing))


def _watched(blocks: Iterator[bytes], source: Source, progress: Progress | None) -> Iterator[bytes]:
    for block in blocks:
        yield block
        if progress is not None:
            progress(source.read_bytes, source.stored_bytes)


def _decoded(splitter: Splitter) -> Iterator[Chunk]:
    """Decode chunks on a pool, in order, with few in flight: memory stays at a few chunks whatever the file's size."""
    pending: deque[Future[Chunk]] = deque()
    with ThreadPoolExecutor(PARSERS, thread_name_prefix="kerneldb-parse") as pool:
        for ndjson in splitter:
            pending.append(pool.submit(decode, ndjson))
            if len(pending) >= IN_FLIGHT:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _metadata(head: bytes, behind: str) -> tuple[dict[str, Any], int]:
    """Metadata before and behind the events, and how many strings of it were repaired.

    torch 2.4-2.7 wrote the base time behind.
    """
    before = head.decode("utf-8", errors="replace").strip().rstrip(",")
    first, repaired = repair.parse_object(before + "}") if before else ({}, 0)
    rest = behind if before else ""
    second, more = repair.parse_object("{" + rest) if rest and rest != "}" else ({}, 0)
    found, halves = repair.whole_object({**first, **second})
    return found, repaired + more + halves


def _write_launches(spool: Spool, trace_id: str, linked: Linked) -> Counter[str]:
    """Write launches, signatures and names; returns the launch statuses with their counts."""
    if linked.activities is None:
        return Counter()
    launches = LaunchRows(linked.activities, linked.host, linked.parsed.collected, linked.calls)
    for part in launches.slices():
        spool.write("launches", _traced(part, trace_id))
    spool.write("signatures", launches.signatures())
    spool.write("kernel_names", launches.names())
    return launches.statuses


def _write_host(spool: Spool, trace_id: str, linked: Linked) -> None:
    collected, host, calls = linked.parsed.collected, linked.host, linked.calls
    distinct = {call["call_id"]: call for call in calls}
    if distinct:
        spool.write("op_calls", pl.DataFrame(list(distinct.values()), infer_schema_length=None))
    for part in host.ops.iter_slices(SLICE_ROWS):
        spool.write("ops", _traced(tables.op_rows(part, collected, calls, host.ranges), trace_id))
    for part in host.apis.iter_slices(SLICE_ROWS):
        spool.write("api_calls", _traced(tables.api_rows(part, collected), trace_id))
    for table, frame in _small_tables(linked).items():
        if not frame.is_empty():
            spool.write(table, _traced(frame, trace_id))


def _small_tables(linked: Linked) -> dict[str, pl.DataFrame]:
    collected, host, metadata = linked.parsed.collected, linked.host, linked.parsed.metadata
    return {
        "ranges": tables.range_rows(host.ranges, collected),
        "memory_events": tables.memory_rows(host.memory, collected),
        "metrics": tables.metric_rows(host.ranges),
        "samples": tables.sample_rows(collected.counters),
        "devices": trace.devices(metadata),
        "process_groups": trace.process_groups(metadata),
    }


def _traced(frame: pl.DataFrame, trace_id: str) -> pl.DataFrame:
    return frame.with_columns(trace_id=pl.lit(trace_id))


def _trace_row(trace_id: str, source: Source, linked: Linked, options: Options) -> dict[str, Any]:
    parsed = linked.parsed
    row = trace.facts(parsed.metadata, options.keep_environment)
    start, end = _window(linked)
    return {
        **row,
        **trace.clock(parsed.metadata, start),
        "trace_id": trace_id,
        "name": options.name or source.stem,
        "stated_run": options.run,
        "label": options.label,
        "default_phase": options.phase,
        "window_start_ns": start,
        "window_end_ns": end,
        "era": trace.era(parsed.metadata, _marks(linked)),
        "has_shapes": any(call["input_dims"] is not None for call in linked.calls),
        "has_stacks": bool((linked.host.ranges["cat"] == "python_function").any() or _has_notes(parsed.collected)),
        "launches": 0 if linked.activities is None else linked.activities.frame.height,
    }


def _has_notes(collected: Collector) -> bool:
    return any(row[0] for row in collected.notes.rows())


def _marks(linked: Linked) -> dict[str, bool]:
    return {
        "old_categories": linked.parsed.collected.old_categories,
        "record_function_id": "Record function id" in linked.host.ops.columns,
        "copied_external_ids": linked.activities is not None and linked.activities.copied_external_ids,
    }


def _window(linked: Linked) -> times.Window:
    """First start and last end of everything that has a time, in ns after the base."""
    sides = [linked.host.ops, linked.host.apis]
    if linked.activities is not None:
        sides.append(linked.activities.frame)
    frames = [side.select("ts", "dur") for side in sides if side.height]
    if not frames:
        return None, None
    return times.span(pl.concat(frames), "ts", pl.col("dur"), linked.parsed.collected.window_end_ns)


def _write_trace(spool: Spool, row: dict[str, Any], source: Source, linked: Linked, statuses: Counter[str]) -> None:
    parsed, trace_id = linked.parsed, row["trace_id"]
    report = Report.of(parsed.collected, linked.host, statuses)
    report.add("repaired", "metadata string", parsed.metadata_repairs)
    report.add("lost", "text behind the end of the trace", int(parsed.trailing))
    cut = parsed.truncated or source.damage is not None
    report.add_refused(spool)
    report.add("truncated", source.damage or "the text ends before the trace does", int(cut))
    file = {
        "trace_id": trace_id,
        "file_index": 0,
        "path": source.label,
        "role": "trace",
        "sha256": source.sha256,
        "bytes": source.decompressed_bytes,
        "compressed_bytes": source.stored_bytes,
        "events": parsed.collected.events,
        "report": json.dumps(report.summary()),
    }
    spool.write("traces", pl.DataFrame([row], infer_schema_length=None))
    spool.write("trace_files", pl.DataFrame([file]))
    spool.write("ingest_reports", _traced(report.rows(), trace_id).with_columns(file_index=pl.lit(0)))
