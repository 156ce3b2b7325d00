"""Converts one PyTorch profiler trace into a spool: read in chunks, link, write the tables, report what was done."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.pytorch import census, repair, rocm, tables, workers
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import Host, read_host
from kerneldb.ingest.pytorch.identity import CallRow, call_row
from kerneldb.ingest.pytorch.launches import Activities, LaunchRows, read_activities
from kerneldb.ingest.pytorch.narrow import Narrower
from kerneldb.ingest.pytorch.split import Splitter
from kerneldb.ingest.readers import Options, Progress
from kerneldb.ingest.source import Source
from kerneldb.ingest.threads import mapped

FLOWS: Final = ("s", "t", "f")
RENUMBERED: Final = "launches whose device was numbered by the driver: given the number of HIP"
SLICE_ROWS: Final = 1 << 16


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
    """The parsed trace with every link made.

    `calls` are the rows of `op_calls` in code order, `devices` those of `devices`; `numbers` says which device of HIP a
    recorded number is, where they differ.
    """

    parsed: Parsed
    host: Host
    activities: Activities | None
    calls: list[CallRow]
    devices: pl.DataFrame
    numbers: dict[int, int]


def link(parsed: Parsed) -> Linked:
    """Link calls to operators, launches to calls, and compute the identities."""
    host = read_host(parsed.collected)
    calls = [call_row(values) for values in parsed.collected.calls.rows()]
    activities = read_activities(parsed.collected, host)
    used = [] if activities is None else activities.frame["device"].drop_nulls().unique().sort().to_list()
    numbers, devices = rocm.numbered(tables.devices(parsed.metadata), used, tables.allocating(host.memory))
    if activities is not None and numbers:
        frame = activities.frame.with_columns(pl.col("device").replace(numbers))
        activities = dataclasses.replace(activities, frame=frame)
    return Linked(parsed, host, activities, calls, devices, numbers)


def convert(source: Source, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert `source` into the spool `folder`.

    Raises NotATraceError where the text holds no events array; UnreadableTraceError where it cannot be opened.
    """
    linked = link(parse(source, progress))
    parsed, collected = linked.parsed, linked.parsed.collected
    output = Output(folder, [source])
    output.spool.guard.until(collected.window_end_ns)
    statuses = _write_launches(output, linked)
    _write_host(output, linked)
    _report(output.report, linked, statuses)
    _account(output.report, linked, options.keep_environment)
    cut = parsed.truncated or source.damage is not None
    output.report.add("truncated", source.damage or "the text ends before the trace does", int(cut))
    output.window = _window(linked)
    output.launches = 0 if linked.activities is None else linked.activities.frame.height
    with_stacks = (linked.host.ranges["cat"] == "python_function").any() or any(
        stack for stack, *_ in collected.notes.rows()
    )
    marks = {
        "old_categories": collected.old_categories,
        "record_function_id": "Record function id" in linked.host.ops.columns,
        "copied_external_ids": linked.activities is not None and linked.activities.copied_external_ids,
    }
    return output.finish(
        options,
        source.stem,
        [File(source, "trace", collected.events, output.report)],
        **tables.facts(parsed.metadata, options.keep_environment),
        **tables.clock(parsed.metadata, output.window[0]),
        era=tables.era(parsed.metadata, marks),
        has_shapes=any(call["input_dims"] is not None for call in linked.calls),
        has_stacks=bool(with_stacks),
    )


def parse(source: Source, progress: Progress | None = None) -> Parsed:
    """Read all events of `source`, piece by piece."""

    def watched(blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            if progress is not None:
                progress(source.read_bytes, source.stored_bytes)

    with contextlib.closing(source.blocks()) as blocks:
        return _parse(source, Splitter(watched(blocks)))


def _parse(source: Source, splitter: Splitter) -> Parsed:
    if splitter.head is None:
        message = f"{source.label}: no `traceEvents` array, so this is not a PyTorch profiler trace."
        raise NotATraceError(message)
    collected = Collector()
    behind: str | None = None
    in_object, trailing = bool(splitter.head.strip()), ""
    narrower = Narrower()
    wanted = workers.useful(source.stored_bytes, source.packed)
    with contextlib.closing(workers.narrowed(splitter, narrower, wanted)) as chunks:
        for chunk, reader in chunks:
            if trailing:
                continue  # another document, read for the check sum only
            collected.add(chunk, reader)
            behind = chunk.behind
            trailing = repair.split_end(behind, in_object)[1] if behind is not None else ""
    tail = narrower.tail(splitter.tail)
    if behind is None:
        collected.add(tail)
        behind = tail.behind
    else:
        behind += "," + splitter.tail.decode("utf-8", errors="replace")
    rest, trailing = repair.split_end(behind or "", in_object)
    closed = behind is not None and (rest.endswith("}") or not in_object)
    metadata, repairs = _metadata(splitter.head, rest)
    return Parsed(collected, metadata, repairs, not closed, bool(trailing))


def _metadata(head: bytes, behind: str) -> tuple[dict[str, Any], int]:
    """Metadata before and behind the events, and how many strings of it were repaired.

    torch 2.4-2.7 wrote the base time behind.
    """
    before = head.decode("utf-8", errors="replace").strip().rstrip(",")
    first, repaired = repair.parse_object(before + "}") if before else ({}, 0)
    rest = behind if before else ""
    second, more = repair.parse_object("{" + rest) if rest and rest != "}" else ({}, 0)
    found, halves = repair.object_without_surrogates({**first, **second})
    return found, repaired + more + halves


def _write_launches(output: Output, linked: Linked) -> Counter[str]:
    """Write launches, signatures and names; returns the launch statuses with their counts."""
    if linked.activities is None:
        return Counter()
    launches = LaunchRows(linked.activities, linked.host, linked.parsed.collected, linked.calls)
    for part in launches.slices():
        output.write("launches", part)
    output.spool.write("signatures", launches.signatures())
    output.spool.write("kernel_names", launches.names())
    return launches.statuses


def _write_host(output: Output, linked: Linked) -> None:
    collected, host, calls = linked.parsed.collected, linked.host, linked.calls
    distinct = {call["call_id"]: call for call in calls}
    if distinct:
        output.spool.write("op_calls", pl.DataFrame(list(distinct.values()), infer_schema_length=None))
    labels = tables.op_labels(collected, calls)
    ops = functools.partial(tables.op_rows, labels=labels, frames=host.ranges["name"])
    for rows in mapped(ops, host.ops.iter_slices(SLICE_ROWS)):
        output.write("ops", rows)
    for rows in mapped(functools.partial(tables.api_rows, collected=collected), host.apis.iter_slices(SLICE_ROWS)):
        output.write("api_calls", rows)
    output.write("ranges", tables.range_rows(host.ranges, collected, linked.numbers))
    output.write("memory_events", tables.memory_rows(host.memory, collected))
    output.write("sync_events", tables.sync_rows(host.syncs, collected))
    output.write("metrics", tables.metric_rows(host.ranges))
    output.write("samples", tables.sample_rows(collected.counters))
    output.write("devices", linked.devices)
    output.write("process_groups", tables.process_groups(linked.parsed.metadata))


def _report(report: Report, linked: Linked, statuses: Counter[str]) -> None:
    """Account for every event."""
    parsed, host, collected = linked.parsed, linked.host, linked.parsed.collected
    report.counts["read", "events"] = (collected.events, None)
    report.add("stored", "launches", statuses.total())
    stored = {"ops": host.ops, "api_calls": host.apis, "ranges": host.ranges, "memory_events": host.memory}
    stored["sync_events"] = host.syncs
    for table, frame in stored.items():
        report.add("stored", table, frame.height)
    example = collected.examples[0] if collected.examples else None
    report.add("repaired", "event that is not valid JSON", collected.repaired, example)
    report.add("lost", "event that cannot be read", collected.lost, example)
    for group, n in sorted(collected.untimed.items()):
        report.add("note", f"{group} event without a time", n)
    report.add("stored", "counter events", sum(n for (phase, _), n in collected.marks.items() if phase == "C"))
    report.add("note", "no GPU activity", int(not statuses.total()))
    report.add("note", RENUMBERED, statuses.total() if linked.numbers else 0)
    for status, n in sorted(statuses.items()):
        report.add("note", f"launch status {status}", n)
    report.add("repaired", "metadata string", parsed.metadata_repairs)
    report.add("lost", "text behind the end of the trace", int(parsed.trailing))


def _account(report: Report, linked: Linked, keep_environment: bool) -> None:
    """Name every part that is not read: events without a row, arguments, and keys around the events."""
    collected = linked.parsed.collected
    flows: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    for (phase, category), n in collected.skipped.items():
        (flows if phase in FLOWS else phases)[category if phase in FLOWS else phase] += n
    marks: Counter[str] = Counter()
    for (phase, name), n in collected.marks.items():
        marks[name] += n if phase != "C" else 0
    census.account(census.FLOWS, flows, report)
    census.account(census.PHASES, phases, report)
    census.account(census.MARKS, marks, report)
    census.account(census.ARGUMENTS, collected.unread, report)
    census.account(census.METADATA, tables.unread_metadata(linked.parsed.metadata, keep_environment), report)
    second = linked.parsed.metadata.get("traceEvents")
    report.add("lost", "event of a second `traceEvents`", len(second) if isinstance(second, list) else 0)
    spans = linked.host.ranges.drop_nulls("cat").group_by("cat").len()
    for category, n in census.most(dict(spans.iter_rows())).items():
        if census.CATEGORIES.reason(category) is not None:
            report.add("note", f"category {category}: {UNKNOWN}; its spans are in ranges", n)


def _window(linked: Linked) -> times.Window:
    """First start and last end of everything that has a time, in ns after the base."""
    sides = [linked.host.ops, linked.host.apis, linked.host.syncs]
    if linked.activities is not None:
        sides.append(linked.activities.frame)
    frames = [side.select("ts", "dur") for side in sides if side.height]
    if not frames:
        return None, None
    return times.span(pl.concat(frames), "ts", pl.col("dur"), linked.parsed.collected.window_end_ns)
