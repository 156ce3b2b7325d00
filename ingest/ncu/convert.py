"""Nsight Compute exports of one capture as one spool: each kernel once, whatever number of pages prints it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest, Spool
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ids import content_id
from kerneldb.ingest.finishing import file_row, finish, trace_row
from kerneldb.ingest.ncu import launches, stems, summary
from kerneldb.ingest.ncu.kernels import Kernel, Key, kernels, look, what_of
from kerneldb.ingest.ncu.log import Log
from kerneldb.ingest.ncu.measures import SCHEMA, Measure, attributes, measures, settled
from kerneldb.ingest.ncu.numbers import Evidence, Style
from kerneldb.ingest.ncu.table import Row, lines, rows
from kerneldb.ingest.ncu.whole import Whole
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.report import Report
from kerneldb.ingest.signing import PRODUCTS, Signer
from kerneldb.ingest.source import Source

READER_VERSION: Final = 1
SLICE_ROWS: Final = 200_000
SLICE_LAUNCHES: Final = 500
PAGES: Final = ("raw", "details", "summary")
LOCAL: Final = ("127.0.0.1", "localhost", "")
CONSOLE: Final = (
    "this is the text that ncu prints for people: its columns cannot be read back. Print it again with `--csv`, or "
    "`ncu --import REPORT.ncu-rep --page raw --csv > FILE`"
)


@dataclasses.dataclass(slots=True)
class File:
    """A file after its first reading: the pages in it, the style of its numbers, what else was said."""

    source: Source
    log: Log
    style: Style
    pages: tuple[str, ...]
    records: int
    columns: int
    report: Report


@dataclasses.dataclass(slots=True)
class Capture:
    """What all files of a trace tell: launches by key, devices, and rows of `metrics` that were not written yet."""

    spool: Spool
    known: dict[Key, launches.Launch] = dataclasses.field(default_factory=dict)
    devices: dict[tuple[str | None, int], dict[str, Any]] = dataclasses.field(default_factory=dict)
    waiting: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    pages_of: dict[Key, set[tuple[Path, str]]] = dataclasses.field(default_factory=dict)
    times: set[str] = dataclasses.field(default_factory=set)
    sections: set[str] = dataclasses.field(default_factory=set)
    facts: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    repeated: int = 0

    def add(self, kernel: Kernel, found: list[Measure], told: dict[str, Any], place: tuple[Path, str]) -> None:
        """Take what a page says of a kernel. Raises ValueError where it contradicts another page."""
        launch = self.known.get(kernel.key)
        if launch is None:
            launch = self.known[kernel.key] = launches.launch_of(kernel, len(self.known))
        launches.join(launch, kernel, found)
        self.pages_of.setdefault(kernel.key, set()).add(place)
        self._device(launch, kernel, told)
        for name in ("Process Name", "Host Name", "Kernel Time"):
            if kernel.identity.get(name):
                self.facts.setdefault(name, set()).add(kernel.identity[name])
        self.sections.update(one.section for one in found if one.section)
        index = launch.row["launch_index"]
        self.waiting.extend((index, *one) for one in found)
        if len(self.waiting) >= SLICE_ROWS:
            self.flush()

    def _device(self, launch: launches.Launch, kernel: Kernel, told: dict[str, Any]) -> None:
        row = launches.device_row(kernel, told)
        if row["arch"] is None:
            return
        # Pages before 2023 have no column Device: the GPU that the raw page describes gets the number 0.
        launch.row["device"] = row["device"]
        before = self.devices.setdefault((row["process"], row["device"]), row)
        before |= {name: value for name, value in row.items() if before[name] is None}

    def flush(self) -> None:
        """Write the rows of `metrics` gathered so far; a kernel is never split."""
        frame = pl.DataFrame(self.waiting, schema=SCHEMA, orient="row")
        self.waiting.clear()
        whole, repeated = settled(frame)
        self.repeated += repeated
        self.spool.write("metrics", whole)

    def join_pages(self) -> None:
        """Where kernels stand on several pages, keep one row per launch and metric, slice by slice."""
        if all(len(places) == 1 for places in self.pages_of.values()):
            return
        parts = self.spool.paths("metrics")
        table = pl.scan_parquet(parts)
        written = []
        for start in range(0, len(self.known), SLICE_LAUNCHES):
            inside = pl.col("launch_index").is_between(start, start + SLICE_LAUNCHES - 1)
            whole, repeated = settled(table.filter(inside).collect())
            self.repeated += repeated
            written.append(whole)
        self.spool.replace("metrics", pl.concat(written))


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """The spool of a capture. Raises NotATraceError or UnreadableTraceError."""
    if any(stems.is_report(path) for path in unit.files):
        from kerneldb.ingest.ncu import report_file

        return report_file.convert(unit, folder, options, progress)
    files = sorted((_survey(Source(path)) for path in unit.files), key=lambda file: PAGES.index(file.pages[0]))
    if any("summary" in file.pages for file in files):
        return summary.convert(files, folder, options)
    capture = Capture(Spool(folder))
    for number, file in enumerate(files, 1):
        _read(file, capture)
        if progress is not None:
            progress(sum(one.source.read_bytes for one in files[:number]), unit.stored_bytes)
    pages = sorted({page for file in files for page in file.pages}, key=PAGES.index)
    return close(capture, files, options, f"ncu csv {'+'.join(pages)}")


def rows_of(source: Source, log: Log) -> Iterator[Row]:
    """Records of all tables in a file."""
    with contextlib.closing(source.blocks()) as blocks:
        yield from rows(lines(blocks), log, source.label)
    if source.damage:
        message = f"{source.label}: {source.damage}. Copy the file again."
        raise UnreadableTraceError(message)


def _survey(source: Source) -> File:
    """The first reading: pages, style, messages. Raises NotATraceError where nothing was profiled."""
    log, evidence, report = Log(), Evidence(), Report()
    pages: dict[str, None] = {}
    records = columns = 0
    for header, fields in rows_of(source, log):
        pages[header.page] = None
        records, columns = records + 1, len(header.columns)
        report.add("read", what_of(header, fields), 1)
        look(evidence, (header, fields))
    if not records:
        raise NotATraceError(_nothing(source, log))
    try:
        style = evidence.style()
    except ValueError as error:
        message = (
            f"{source.label}: {error}. Numbers follow the locale of the shell: print the page again with "
            "`LC_ALL=C ncu --import REPORT.ncu-rep --page raw --csv > FILE`."
        )
        raise UnreadableTraceError(message) from error
    log.tell(report)
    return File(source, log, style, tuple(sorted(pages, key=PAGES.index)), records, columns, report)


def _nothing(source: Source, log: Log) -> str:
    if log.console:
        return f"{source.label}: {CONSOLE}."
    said = log.complaint or "The file holds no table of ncu: profile with `ncu --csv --log-file FILE`."
    return f"{source.label}: ncu profiled no kernel. {said}"


def _read(file: File, capture: Capture) -> None:
    log, whole = Log(), Whole()
    again = Source(file.source.path)
    try:
        for kernel in kernels(rows_of(again, log)):
            whole.see(kernel)
            found = list(measures(kernel, file.style))
            passes = file.log.passes.get(kernel.key[1])
            if passes is not None:
                found.append(_passes(passes))
            place = (file.source.path, kernel.page)
            capture.add(kernel, found, attributes(kernel, file.style), place)
    except ValueError as error:
        message = f"{file.source.label}: {error}; these pages are not of one report. Ingest them one by one."
        raise UnreadableTraceError(message) from error
    file.report.add("note", "metrics that only the last launch lacks: the page may be cut", whole.missing)
    capture.flush()


def _passes(passes: int) -> Measure:
    """Replay passes as ncu logs them: the metric of that name where the page does not hold it."""
    return Measure("profiler__replayer_passes", float(passes), None, "pass", 0.5, None, "==PROF==", None)


def close(capture: Capture, files: list[File], options: Options, era: str) -> Manifest:
    """Write what a capture told, and finish the spool."""
    capture.join_pages()
    spool, signer = capture.spool, Signer()
    signed = signer.sign(launches.frame(capture.known.values()))
    row = _trace(capture, files, options, era)
    traced = pl.lit(row["trace_id"]).alias("trace_id")
    dropped = ["name", *launches.AXES, *PRODUCTS]
    spool.write("launches", signed.drop(dropped).with_columns(traced))
    spool.write("signatures", signer.signatures())
    spool.write("kernel_names", signer.names())
    spool.write("devices", pl.DataFrame(list(capture.devices.values()), schema=launches.DEVICES).with_columns(traced))
    if spool.paths("metrics"):
        write_traced(spool, "metrics", row["trace_id"])
    report = files[0].report
    report.add("stored", "launches", signed.height)
    report.add("note", "metrics printed more than once", capture.repeated)
    report.add("note", "shared memory rounded by the print", signed["quality"].count())
    for file in files[1:]:
        file.report.add("stored", "pages joined to the launches of another file", 1)
    rows_ = [file_row(file.source, "+".join(file.pages), file.records) for file in files]
    return finish(spool, row, rows_, [file.report for file in files])


def write_traced(spool: Spool, table: str, trace_id: str) -> None:
    """Give the parts of a table that were written before the trace was known its id, part by part."""
    for path in spool.paths(table):
        pl.read_parquet(path).with_columns(trace_id=pl.lit(trace_id)).write_parquet(path, compression="lz4")


def _trace(capture: Capture, files: list[File], options: Options, era: str) -> dict[str, Any]:
    paths = [file.source.path for file in files]
    hosts = sorted(capture.facts.get("Host Name", set()) - set(LOCAL))
    return trace_row(
        [file.source for file in files],
        options,
        stems.common(paths),
        kind="profiled",
        source="ncu",
        tool="Nsight Compute",
        era=era,
        host=hosts[0] if hosts else None,
        has_shapes=False,
        has_stacks=False,
        launches=len(capture.known),
        metadata=json.dumps(_metadata(capture, files, options)),
        reader_version=READER_VERSION,
    )


def _metadata(capture: Capture, files: list[File], options: Options) -> dict[str, Any]:
    times = sorted(capture.facts.get("Kernel Time", ()))
    kept: dict[str, Any] = {
        "report": content_id("ncu", *(part for key in sorted(capture.known) for part in key)),
        "sections": sorted(capture.sections),
        "numbers": [dataclasses.asdict(file.style) for file in files],
        "columns": [file.columns for file in files],
        "processes": sorted({key[0] for key in capture.known}),
    }
    if times:
        kept["kernel_time"] = [times[0], times[-1]]
    if options.keep_environment:
        kept["process_names"] = sorted(capture.facts.get("Process Name", ()))
    return kept
