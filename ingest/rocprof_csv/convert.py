"""Converts the CSV files of one capture into one spool."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.ingest import readers
from kerneldb.ingest.amd import agents as agent_rows
from kerneldb.ingest.amd import capture
from kerneldb.ingest.amd.host import Host, is_range
from kerneldb.ingest.amd.launches import Launches
from kerneldb.ingest.amd.memory import memory_rows
from kerneldb.ingest.amd.output import Output
from kerneldb.ingest.amd.ranges import Marker
from kerneldb.ingest.amd.resources import is_halved
from kerneldb.ingest.amd.summary import describe
from kerneldb.ingest.finishing import file_row, finish, trace_row
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.report import Report
from kerneldb.ingest.rocprof_csv import activities
from kerneldb.ingest.rocprof_csv.agents import AgentMap
from kerneldb.ingest.rocprof_csv.counters import Counters
from kerneldb.ingest.rocprof_csv.headers import Kind
from kerneldb.ingest.rocprof_csv.table import Table
from kerneldb.ingest.signing import Signer
from kerneldb.ingest.source import Source, digest, trace_id_of

READER_VERSION: Final = 2
NO_AGENTS: Final = "devices numbered among all agents: no agent_info.csv in the capture"
SUMMED_CALLS: Final = "sums of API calls (kernels have their own)"
PC_SAMPLES: Final = "samples of the program counter (not supported)"
API_NAME: Final = re.compile(r"(__)?(hip|hsa|roctx|nccl|rocdec|rocjpeg|mscclpp?)[A-Z_]\w*")
DOMAIN_NAME: Final = re.compile(r"[A-Z][A-Z_]+")


@dataclasses.dataclass(slots=True)
class Capture:
    """Everything that the steps of a conversion share."""

    tables: list[Table]
    output: Output
    agents: AgentMap
    process: str | None
    halved: bool
    progress: Callable[[], None]

    def of(self, *kinds: Kind) -> Iterator[Table]:
        """The tables of these kinds."""
        return (table for table in self.tables if table.kind in kinds)


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """Convert all files of `unit` into the spool `folder`.

    Raises UnreadableTraceError where a file cannot be opened.
    """
    tables = [Table(Source(path), readers.head_of(path).data) for path in unit.files]
    trace_id = _trace_id(unit.files)
    output = Output(Spool(folder), trace_id, Report())
    known = AgentMap(_agents(tables))
    halved = _halved(tables, known)
    it = Capture(tables, output, known, _process(tables), halved, _progress(tables, progress))
    output.write("devices", agent_rows.device_rows(it.agents.agents, it.process))
    host = Host(output, _markers(it))
    launches = Launches(output, host)
    _read(it, host, launches)
    row = _trace_row(it, options, launches)
    describe(output, host, launches)
    output.report.add("note", NO_AGENTS, it.agents.guessed)
    _merge(tables[0].report, output.report)
    files = [file_row(table.source, table.stem or table.kind, table.read) for table in tables]
    return finish(output.spool, row, files, [table.report for table in tables])


def _trace_id(files: Sequence[Path]) -> str:
    read = [Source(path) for path in files]
    for one in read:
        digest(one)
    return trace_id_of(read)


def _progress(tables: Sequence[Table], progress: Progress | None) -> Callable[[], None]:
    total = sum(table.source.stored_bytes for table in tables)

    def follow() -> None:
        if progress is not None:
            progress(min(total, sum(one.source.read_bytes for one in tables)), total)

    return follow


def _agents(tables: Sequence[Table]) -> list[dict[str, Any]]:
    return [
        row
        for table in tables
        if table.kind == "agents"
        for frame in table.rows()
        for row in frame.iter_rows(named=True)
    ]


def _process(tables: Sequence[Table]) -> str | None:
    """The process of files that do not name one: from their names, as `%pid%_kernel_trace.csv`."""
    return next((pid for table in tables if (pid := capture.process_of(table.source.path))), None)


def _markers(it: Capture) -> list[Marker]:
    found: list[Marker] = []
    for table in it.of("calls"):
        if "MARKER" in table.stem.upper() or _has_markers(table):
            found += [one for frame in _again(table).rows() for one in activities.markers(_core(frame))]
    return found


def _has_markers(table: Table) -> bool:
    return b"MARKER_" in readers.head_of(table.source.path).data


def _again(table: Table) -> Table:
    """The same file, to be read once more: markers have to be known before the first call."""
    return Table(Source(table.source.path), readers.head_of(table.source.path).data)


def _core(frame: pl.DataFrame, wanted: bool = True) -> pl.DataFrame:
    distinct = {domain: is_range(domain, "") for domain in frame["domain"].unique().drop_nulls()}
    flags = frame["domain"].replace_strict(distinct, default=False, return_dtype=pl.Boolean)
    return frame.filter(flags if wanted else ~flags)


def _read(it: Capture, host: Host, launches: Launches) -> None:
    for table in it.of("calls"):
        for frame in table.rows():
            for part, rows in _by_guid(_core(frame, wanted=False)):
                host.add(part, activities.calls(rows))
            it.progress()
    it.output.report.add("stored", "API calls", host.calls)
    counters = Counters(it.output, launches, it.agents, it.process, it.halved)
    for table in it.of("kernels"):
        _kernels(it, table, counters)
    for table in it.of("counters"):
        for frame in table.rows():
            counters.add(frame, table.from_rocpd, capture.pass_of(table.source.path))
            it.progress()
    for table in it.of("copies"):
        for frame in table.rows():
            for part, rows in _by_guid(frame):
                launches.add(part, activities.copies(rows, it.agents, it.process), it.agents.archs)
    _memory(it)
    signer = Signer()
    _sums(it, signer)
    _skipped(it)
    it.output.spool.write("signatures", signer.signatures())
    it.output.spool.write("kernel_names", signer.names())
    launches.finish()


def _kernels(it: Capture, table: Table, counters: Counters) -> None:
    wide = table.wide_counters
    for frame in table.rows():
        for part, rows in _by_guid(frame):
            counters.traced(part, rows, wide, table.from_rocpd)
        it.progress()


def _halved(tables: Sequence[Table], known: AgentMap) -> bool:
    """Whether register counts suffer from the gfx950 fault of the profiler: all launches together tell."""
    suspects = [arch for arch in known.archs.values() if is_halved(arch, 0)]
    if not suspects:
        return False
    return not any(
        any((count or 0) > 0 for count in frame["agpr"].unique())
        for table in tables
        if table.kind in ("kernels", "counters") and "agpr" in table.columns
        for frame in _again(table).rows()
    )


def _by_guid(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    if "guid" not in frame.columns:
        yield "", frame
        return
    for (guid,), rows in frame.partition_by("guid", as_dict=True, maintain_order=True).items():
        yield str(guid or ""), rows


def _memory(it: Capture) -> None:
    first = 0
    for table in it.of("memory", "scratch"):
        frames = [
            activities.memory(frame, it.agents, it.process, scratch=table.kind == "scratch") for frame in table.rows()
        ]
        given = pl.concat(frames) if frames else pl.DataFrame()
        if given.height:
            it.output.saw(given)
            it.output.write("memory_events", memory_rows(given, first))
            table.report.add("stored", "allocations and releases", given.height)
            first += given.height


def _sums(it: Capture, signer: Signer) -> None:
    for table in it.of("stats"):
        for frame in table.rows():
            rows = activities.sums(frame)
            if _is_of_kernels(table, rows):
                signed = signer.sign(rows).drop("name", "kind")
                it.output.write("rollups", signed)
                table.report.add("stored", "sums over launches", rows.height)
            else:
                table.report.add("skipped", SUMMED_CALLS, rows.height)


def _is_of_kernels(table: Table, rows: pl.DataFrame) -> bool:
    """By the name that rocprofv3 gives the file, else by what it lists: functions of an API, or domains."""
    stem = table.stem.lower()
    if stem:
        return "kernel" in stem or stem == "stats"
    names = rows["name"].to_list()
    return not all(API_NAME.fullmatch(name) or DOMAIN_NAME.fullmatch(name) for name in names)


def _skipped(it: Capture) -> None:
    for table in it.of("pc_samples"):
        table.report.add("skipped", PC_SAMPLES, sum(frame.height for frame in table.rows()))


def _merge(into: Report, other: Report) -> None:
    for (outcome, reason), (n, example) in other.counts.items():
        into.add(outcome, reason, n, example)


def _trace_row(it: Capture, options: Options, launches: Launches) -> dict[str, Any]:
    first = it.tables[0].source
    tool = "rocprof" if any(table.is_old for table in it.tables) else "rocprofv3"
    form = "rocpd csv" if any(table.from_rocpd for table in it.tables) else f"{tool} csv"
    roots = {table.kind for table in it.tables}
    facts = {
        "kind": "summary" if roots == {"stats"} else launches.trace_kind,
        "source": tool,
        "tool": tool,
        "era": capture.era_of(form, first.path),
        "clock": "boottime",
        "base_ns": 0,
        "window_start_ns": it.output.window[0],
        "window_end_ns": it.output.window[1],
        "has_shapes": False,
        "has_stacks": False,
        "launches": it.output.launches,
        "metadata": json.dumps({"files": sorted(roots)}),
        "reader_version": READER_VERSION,
    }
    name = capture.prefix_of(first.path) if len(it.tables) > 1 else first.stem.removesuffix(".csv")
    read = [table.source for table in it.tables]
    return {**trace_row(read, options, name or first.stem, **facts), "trace_id": it.output.trace_id}
