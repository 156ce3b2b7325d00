"""Converts the CSV files of one capture into one spool."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest import readers
from kerneldb.ingest.amd import agents as agent_rows
from kerneldb.ingest.amd import capture
from kerneldb.ingest.amd.host import Host, Marker, is_range
from kerneldb.ingest.amd.launches import Launches, is_halved
from kerneldb.ingest.amd.rows import memory_rows
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.rocprof_csv import activities
from kerneldb.ingest.rocprof_csv.activities import AgentMap, Counters
from kerneldb.ingest.rocprof_csv.table import Kind, Table
from kerneldb.ingest.signing import Signer
from kerneldb.ingest.source import Source, digest

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
    total = sum(table.source.stored_bytes for table in tables)

    def follow() -> None:
        if progress is not None:
            progress(min(total, sum(table.source.read_bytes for table in tables)), total)

    read = [Source(path) for path in unit.files]
    for one in read:
        digest(one)
    output = Output(folder, read)
    agents = AgentMap(
        row
        for table in tables
        if table.kind == "agents"
        for frame in table.rows()
        for row in frame.iter_rows(named=True)
    )
    # Files that do not name the process may have it in their names, as `%pid%_kernel_trace.csv`.
    prefixes = [capture.prefix_of(path) for path in unit.files]
    process = next((prefix for prefix in prefixes if prefix.isdecimal()), None)
    it = Capture(tables, output, agents, process, _halved(tables, agents), follow)
    output.write("devices", agent_rows.device_rows(agents.agents, process))
    host = Host(output, _markers(it))
    launches = Launches(output, host)
    _read(it, host, launches)
    output.report.add("note", NO_AGENTS, agents.guessed)
    for (outcome, reason), (n, example) in output.report.counts.items():
        tables[0].report.add(outcome, reason, n, example)
    files = [File(table.source, table.stem or table.kind, table.read, table.report) for table in tables]
    first = tables[0].source
    name = prefixes[0] if len(tables) > 1 else first.stem.removesuffix(".csv")
    return output.finish(options, name or first.stem, files, **_facts(it, launches))


def _markers(it: Capture) -> list[Marker]:
    found: list[Marker] = []
    for table in it.of("calls"):
        if "MARKER" in table.stem.upper() or b"MARKER_" in readers.head_of(table.source.path).data:
            found += [one for frame in _again(table).rows() for one in activities.markers(_core(frame))]
    return found


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
    counters = Counters(it.output, launches, it.agents, it.process, it.halved)
    for table in it.of("kernels"):
        for frame in table.rows():
            for part, rows in _by_guid(frame):
                counters.traced(part, rows, table.wide_counters, table.from_rocpd)
            it.progress()
    for table in it.of("counters"):
        for frame in table.rows():
            counters.add(frame, table.from_rocpd, capture.pass_of(table.source.path))
            it.progress()
    for part, rows in (one for table in it.of("copies") for frame in table.rows() for one in _by_guid(frame)):
        launches.add(part, activities.copies(rows, it.agents, it.process), it.agents.archs)
    _memory(it)
    _sums(it)
    for table in it.of("pc_samples"):
        table.report.add("skipped", PC_SAMPLES, sum(frame.height for frame in table.rows()))
    launches.finish()


def _halved(tables: Sequence[Table], known: AgentMap) -> bool:
    """Whether register counts suffer from the gfx950 fault of the profiler, which takes all launches to know."""
    suspected = any(is_halved(arch, 0) for arch in known.archs.values())
    return suspected and not any(
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


def _sums(it: Capture) -> None:
    signer = Signer()
    for table in it.of("stats"):
        for frame in table.rows():
            rows = activities.sums(frame)
            if _is_of_kernels(table, rows):
                signed = signer.sign(rows).drop("name", "kind")
                it.output.write("rollups", signed)
                table.report.add("stored", "sums over launches", rows.height)
            else:
                table.report.add("skipped", SUMMED_CALLS, rows.height)
    it.output.spool.write("signatures", signer.signatures())
    it.output.spool.write("kernel_names", signer.names())


def _is_of_kernels(table: Table, rows: pl.DataFrame) -> bool:
    """By the name that rocprofv3 gives the file, else by what it lists: functions of an API, or domains."""
    stem = table.stem.lower()
    if stem:
        return "kernel" in stem or stem == "stats"
    names = rows["name"].to_list()
    return not all(API_NAME.fullmatch(name) or DOMAIN_NAME.fullmatch(name) for name in names)


def _facts(it: Capture, launches: Launches) -> dict[str, Any]:
    """Columns of `traces`."""
    tool = "rocprof" if any(table.is_old for table in it.tables) else "rocprofv3"
    form = "rocpd csv" if any(table.from_rocpd for table in it.tables) else f"{tool} csv"
    kinds = {table.kind for table in it.tables}
    return {
        "kind": "summary" if kinds == {"stats"} else launches.trace_kind,
        "source": tool,
        "tool": tool,
        "era": capture.era_of(form, it.tables[0].source.path),
        "clock": "boottime",
        "base_ns": 0,
        "metadata": json.dumps({"files": sorted(kinds)}),
        "reader_version": READER_VERSION,
    }
