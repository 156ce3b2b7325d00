"""Converts one PyTorch trace into a spool: read in chunks, link in order of time, write the tables, report on it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError
from kerneldb.ingest.ledger import UNKNOWN
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.pytorch import census, native, repair, rocm, tables, workers
from kerneldb.ingest.pytorch.callers import Callers
from kerneldb.ingest.pytorch.collect import Collector, Interner
from kerneldb.ingest.pytorch.host import GROUPS, Host, read_host
from kerneldb.ingest.pytorch.identity import CallRow, call_row
from kerneldb.ingest.pytorch.launches import Activities, LaunchRows
from kerneldb.ingest.pytorch.narrow import Narrower
from kerneldb.ingest.pytorch.split import Splitter
from kerneldb.ingest.readers import Options, Progress
from kerneldb.ingest.runs import stretches
from kerneldb.ingest.source import Source
from kerneldb.ingest.threads import ahead, mapped

SCRATCH: Final = "scratch"
Labels = Mapping[str, pl.DataFrame]
FLOWS: Final = ("s", "t", "f")
RENUMBERED: Final = "launches whose device was numbered by the driver: given the number of HIP"
SLICE_ROWS: Final = 1 << 16
QUEUED_ROWS: Final = 4
"""Slices of rows that are made before they are written."""


@dataclasses.dataclass(slots=True)
class Parsed:
    """All that was read from the text: events by group, metadata around them, and whether the text was whole."""

    collected: Collector
    metadata: dict[str, Any]
    metadata_repairs: int
    truncated: bool
    trailing: bool
    beyond: int
    """Members of a long list behind the events."""


@dataclasses.dataclass(slots=True)
class Linked:
    """What is known of a trace once every link is made and all rows are written.

    `calls` are the rows of `op_calls` in code order, `devices` those of `devices`; `numbers` says which device of HIP a
    recorded number is, where they differ. `stored` counts rows by table, `categories` those of `ranges` by category,
    `statuses` launches.
    """

    parsed: Parsed
    calls: list[CallRow]
    devices: pl.DataFrame
    numbers: dict[int, int]
    copied_external_ids: bool
    stored: Counter[str] = dataclasses.field(default_factory=Counter)
    categories: Counter[str] = dataclasses.field(default_factory=Counter)
    statuses: Counter[str] = dataclasses.field(default_factory=Counter)
    window: times.Window = (None, None)


def convert(source: Source, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert `source` into the spool `folder`.

    Raises NotATraceError where the text holds no events array; UnreadableTraceError where it cannot be opened.
    """
    with contextlib.closing(Collector(folder / SCRATCH)) as collected:
        return _convert(parse(source, collected, progress), source, folder, options)


def _convert(parsed: Parsed, source: Source, folder: Path, options: Options) -> Manifest:
    collected = parsed.collected
    output = Output(folder, [source])
    output.spool.guard.until(collected.window_end_ns)
    linked = link(parsed, output)
    _report(output.report, linked)
    _account(output.report, linked, options.keep_environment)
    cut = parsed.truncated or source.damage is not None
    output.report.add("truncated", source.damage or "the text ends before the trace does", int(cut))
    output.window = linked.window
    output.launches = linked.stored["launches"]
    with_frames = any(category == "python_function" for category, _ in collected.labels.rows())
    marks = {
        "old_categories": collected.old_categories,
        "record_function_id": "Record function id" in collected.rows["op"].columns,
        "copied_external_ids": linked.copied_external_ids,
    }
    return output.finish(
        options,
        source.stem,
        [File(source, "trace", collected.events, output.report)],
        **tables.facts(parsed.metadata, options.keep_environment),
        **tables.clock(parsed.metadata, output.window[0]),
        era=tables.era(parsed.metadata, marks),
        has_shapes=any(call["input_dims"] is not None for call in linked.calls),
        has_stacks=with_frames or any(stack for stack, *_ in collected.notes.rows()),
    )


def link(parsed: Parsed, output: Output) -> Linked:
    """Link calls to operators, launches to calls, compute the identities, and write all rows."""
    collected, places = parsed.collected, Interner()
    callers = Callers(collected)
    calls = [call_row(values) for values in collected.calls.rows()]
    numbers, devices = rocm.numbered(
        tables.devices(parsed.metadata), callers.devices, tables.allocating(collected.rows["memory"])
    )
    linked = Linked(parsed, calls, devices, numbers, callers.copied)
    with contextlib.closing(ahead(lambda: _host_side(linked, callers, places), QUEUED_ROWS)) as made:
        for table, rows in made:
            output.write(table, rows)
    for group in GROUPS:
        collected.rows[group].clear()
    _write_launches(output, linked, Activities(collected, callers, numbers), places)
    _write_rest(output, linked)
    return linked


def parse(source: Source, collected: Collector, progress: Progress | None = None) -> Parsed:
    """Read all events of `source`, piece by piece."""

    def watched(blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield block
            if progress is not None:
                progress(source.read_bytes, source.stored_bytes)

    with contextlib.closing(source.blocks()) as blocks:
        return _parse(source, Splitter(watched(blocks)), collected)


def _parse(source: Source, splitter: Splitter, collected: Collector) -> Parsed:
    if splitter.head is None:
        lacks = "no `traceEvents` array, so this is not a PyTorch profiler trace"
        raise NotATraceError(f"{source.label}: {lacks}. Export one with `prof.export_chrome_trace(path)`.")
    behind: str | None = None
    in_object, trailing, is_cut, beyond = bool(splitter.head.strip()), "", False, 0
    narrower = Narrower()
    wanted = workers.useful(source.stored_bytes, source.packed)
    narrowed = native.narrowed(splitter, wanted) if native.built() else workers.narrowed(splitter, narrower, wanted)
    with contextlib.closing(narrowed) as chunks:
        for chunk, reader in chunks:
            if trailing or is_cut:  # another document or list, read for the check sum only
                beyond += chunk.events if is_cut else 0
                continue
            collected.add(chunk, reader)
            if (behind := chunk.behind) is not None:
                trailing = repair.split_end(behind, in_object)[1]
                is_cut = not trailing and repair.is_cut(behind, in_object)
    tail = narrower.tail(splitter.tail)
    if behind is None:
        collected.add(tail)
        behind = tail.behind
    else:
        behind += "," + splitter.tail.decode("utf-8", errors="replace")
    collected.settle()
    rest, trailing = repair.split_end(behind or "", in_object)
    closed = behind is not None and (rest.endswith("}") or not in_object)
    metadata, repairs = _metadata(splitter.head, rest)
    return Parsed(collected, metadata, repairs, not closed, bool(trailing), beyond)


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


def _write_launches(output: Output, linked: Linked, activities: Activities, places: Interner) -> None:
    """Write launches, signatures and names."""
    if activities.shapes.is_empty():
        return
    archs = {} if linked.devices.is_empty() else dict(linked.devices.select("device", "arch").iter_rows())
    launches = LaunchRows(activities, places, linked.parsed.collected, linked.calls, archs)
    for part in launches.slices():
        output.write("launches", part)
    output.spool.write("signatures", launches.signatures())
    output.spool.write("kernel_names", launches.names())
    linked.statuses = launches.statuses
    linked.stored["launches"] = launches.statuses.total()
    linked.window = times.widened(linked.window, activities.window)


def _host_side(linked: Linked, callers: Callers, places: Interner) -> Iterator[tuple[str, pl.DataFrame]]:
    """Tables with rows of what happened on the host, in order of time. Links are made on a thread of their own."""
    collected = linked.parsed.collected
    labels = tables.op_labels(collected, linked.calls), tables.api_call_labels(collected)
    with contextlib.closing(ahead(lambda: read_host(collected, places), 1)) as hosts:
        made = (one for host in hosts for one in _host_rows(linked, callers, host, labels))
        yield from mapped(lambda one: (one[0], one[1]()), made)


def _host_rows(
    linked: Linked, callers: Callers, host: Host, labels: tuple[Labels, Labels]
) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """Tables, each with what makes rows of it: of what happened on the host in one stretch of time."""
    callers.add(host)
    collected, until = linked.parsed.collected, linked.parsed.collected.window_end_ns
    fresh, ranges = host.ops.slice(host.open_ops), host.ranges.slice(host.open_ranges)
    for ops in _slices(fresh):
        yield "ops", functools.partial(tables.op_rows, ops, labels[0], host.ranges["name"])
    for apis in _slices(host.apis):
        yield "api_calls", functools.partial(tables.api_rows, apis, labels[1])
    yield "ranges", functools.partial(tables.range_rows, host, collected, linked.numbers)
    yield "memory_events", functools.partial(tables.memory_rows, host.memory, collected)
    yield "sync_events", functools.partial(tables.sync_rows, host.syncs, collected)
    yield "metrics", functools.partial(tables.metric_rows, ranges)
    stored = {"ops": fresh, "api_calls": host.apis, "ranges": ranges}
    stored |= {"memory_events": host.memory, "sync_events": host.syncs}
    linked.stored.update({table: frame.height for table, frame in stored.items()})
    linked.categories.update(dict(ranges.drop_nulls("cat").group_by("cat").len().iter_rows()))
    for frame in (fresh, host.apis, host.syncs):
        linked.window = times.widened(linked.window, times.span(frame, "ts", pl.col("dur"), until))


def _slices(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    return frame.iter_slices(SLICE_ROWS) if frame.height else iter(())


def _write_rest(output: Output, linked: Linked) -> None:
    """Write what has no place in time, or nothing around it."""
    distinct = {call["call_id"]: call for call in linked.calls}
    if distinct:
        output.spool.write("op_calls", pl.DataFrame(list(distinct.values()), infer_schema_length=None))
    counters = linked.parsed.collected.counters
    for stretch in stretches([counters], SLICE_ROWS) if counters.height else ():
        output.write("samples", tables.sample_rows(counters.between(stretch).iter_rows()))
    output.write("devices", linked.devices)
    output.write("process_groups", tables.process_groups(linked.parsed.metadata))


def _report(report: Report, linked: Linked) -> None:
    """Account for every event."""
    parsed, collected, statuses = linked.parsed, linked.parsed.collected, linked.statuses
    report.counts["read", "events"] = (collected.events, None)
    for table in ("launches", "ops", "api_calls", "ranges", "memory_events", "sync_events"):
        report.add("stored", table, linked.stored[table])
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
    report.add("skipped", "member of a list behind the events", parsed.beyond)


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
    for category, n in census.most(linked.categories).items():
        if census.CATEGORIES.reason(category) is not None:
            report.add("note", f"category {category}: {UNKNOWN}; its spans are in ranges", n)
