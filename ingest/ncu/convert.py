"""Nsight Compute exports of one capture as one spool: each kernel once, whatever number of pages prints it."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ids import content_id
from kerneldb.ingest import readers
from kerneldb.ingest.columns import Schema, frame_of, schema
from kerneldb.ingest.launches import PRODUCTS, Signer
from kerneldb.ingest.ncu import launches, sniff
from kerneldb.ingest.ncu.kernels import (
    COLUMNS,
    SCHEMA,
    UNITS,
    Completeness,
    Kernel,
    Key,
    Measure,
    attributes,
    canonical,
    is_identity,
    kernels,
    measures,
    numbers_of,
    phase_of,
    settled,
    summary_ranges,
    what_of,
)
from kerneldb.ingest.ncu.numbers import Evidence, Style, base_unit
from kerneldb.ingest.ncu.table import Log, Row, lines, rows
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, require_whole
from kerneldb.times import whole_ns

SLICE_ROWS: Final = 200_000
SLICE_LAUNCHES: Final = 500
PAGES: Final = ("raw", "details", "summary")
LOCAL: Final = ("127.0.0.1", "localhost", "")
ODD_RANGES: Final = "NVTX ranges in a form that is not known"
CONSOLE: Final = (
    "this is the text that ncu prints for people: its columns cannot be read back. Print it again with `--csv`, or "
    "`ncu --import REPORT.ncu-rep --page raw --csv > FILE`"
)
NO_KERNELS: Final = "workloads that are not kernels (ranges, graphs)"
KERNELS: Final = "Profile kernels: without `--replay-mode range`, `app-range` and `--graph-profiling graph`."
ARCHIVED: Final = "a report of Nsight Compute in an archive, or under another name. Unpack or rename it to *.ncu-rep."
FACTS: Final = {"source": "ncu", "tool": "Nsight Compute", "reader_version": 1}
SPREAD: Final = {"Average": None, "Minimum": "min", "Maximum": "max"}
"""Column of a summary → instance of the metric."""
METRICS: Final[Schema] = {"row": pl.Int64, **{name: kind for name, kind in SCHEMA.items() if name != "launch_index"}}
ROLLUPS: Final = schema("row origin device phase timing n timed total_ns min_ns max_ns")


@dataclasses.dataclass(slots=True)
class PrintedFile:
    """A file after its first reading: the pages in it, the style of its numbers, other messages."""

    source: Source
    log: Log
    style: Style
    pages: tuple[str, ...]
    records: int
    columns: int
    report: Report


class Capture:
    """What all files of a trace say: launches by key, devices, and rows of `metrics` that were not written yet."""

    def __init__(self, folder: Path) -> None:
        self.output = Output(folder)
        self.known: dict[Key, launches.Launch] = {}
        self.devices: dict[tuple[str | None, int], dict[str, Any]] = {}
        self.sections: set[str] = set()
        self.facts: dict[str, set[str]] = {}
        self.repeated = 0
        self._waiting: list[tuple[Any, ...]] = []
        self._pages_of: dict[Key, set[tuple[Path, str]]] = {}

    def add(self, kernel: Kernel, found: list[Measure], device: dict[str, Any], place: tuple[Path, str]) -> None:
        """Take what a page says of a kernel and its device. Raises ContradictionError."""
        launch = self.known.get(kernel.key)
        if launch is None:
            launch = self.known[kernel.key] = launches.launch_of(kernel, len(self.known))
        name = kernel.name
        if place in self._pages_of.get(kernel.key, ()) and name != launch.row["name"]:
            message = f"launch {kernel.key[1]} of process {kernel.key[0]} is {launch.row['name']} and then {name}"
            raise launches.ContradictionError(message)
        launches.join(launch, kernel, found)
        self._pages_of.setdefault(kernel.key, set()).add(place)
        row = launches.device_row(kernel, device)
        if row["arch"] is not None:
            # Pages before 2023 have no column Device: the GPU that the raw page describes gets the number 0.
            launch.row["device"] = row["device"]
            before = self.devices.setdefault((row["process"], row["device"]), row)
            before |= {name: value for name, value in row.items() if before[name] is None}
        for name in ("Process Name", "Host Name", "Kernel Time"):
            if kernel.identity.get(name):
                self.facts.setdefault(name, set()).add(kernel.identity[name])
        self.sections.update(one.section for one in found if one.section)
        index = launch.row["launch_index"]
        self._waiting.extend((index, *one) for one in found)
        if len(self._waiting) >= SLICE_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows of `metrics` gathered so far; a kernel is never split."""
        kept, repeated = settled(frame_of(self._waiting, SCHEMA))
        self._waiting.clear()
        self.repeated += repeated
        self.output.write("metrics", kept)

    def join_pages(self) -> None:
        """Where kernels are on several pages, keep one row per launch and metric, slice by slice."""
        if all(len(places) == 1 for places in self._pages_of.values()):
            return
        table = pl.scan_parquet(self.output.spool.paths("metrics"))
        written = []
        for start in range(0, len(self.known), SLICE_LAUNCHES):
            inside = pl.col("launch_index").is_between(start, start + SLICE_LAUNCHES - 1)
            kept, repeated = settled(table.filter(inside).collect())
            self.repeated += repeated
            written.append(kept)
        self.output.spool.replace("metrics", pl.concat(written))


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """The spool of a capture. Raises NotATraceError or UnreadableTraceError."""
    if any(sniff.is_report(path) for path in unit.files):
        from kerneldb.ingest.ncu import report_file

        return report_file.convert(unit, folder, options, progress)
    if readers.head_of(unit.files[0]).data.startswith(sniff.MAGIC):
        message = f"{unit.label}: {ARCHIVED}"
        raise NotATraceError(message)
    if len(unit.files) == 1 and sniff.is_source_page(readers.head_of(unit.files[0]).data):
        from kerneldb.ingest.ncu import source_page

        return source_page.convert(unit, folder, options, progress)
    files = sorted((_survey(Source(path)) for path in unit.files), key=lambda file: PAGES.index(file.pages[0]))
    if any("summary" in file.pages for file in files):
        return _convert_summary(files, folder, options)
    capture = Capture(folder)
    for number, file in enumerate(files, 1):
        _read(file, capture)
        if progress is not None:
            progress(sum(one.source.read_bytes for one in files[:number]), unit.stored_bytes)
    if not capture.known:
        raise without_kernels(files[0].source.label)
    pages = sorted({page for file in files for page in file.pages}, key=PAGES.index)
    return close(capture, files, options, f"ncu csv {'+'.join(pages)}")


def without_kernels(label: str) -> NotATraceError:
    """What is said of a file in which all workloads are ranges or graphs."""
    return NotATraceError(f"{label}: ncu profiled ranges of the program or graphs, and no kernel. {KERNELS}")


def rows_of(source: Source, log: Log) -> Iterator[Row]:
    """Records of all tables in a file."""
    with contextlib.closing(source.blocks()) as blocks:
        yield from rows(lines(blocks), log, source.label)
    require_whole(source)


def _survey(source: Source) -> PrintedFile:
    """The first reading: pages, style, messages. Raises NotATraceError where nothing was profiled."""
    log, evidence, report = Log(), Evidence(), Report()
    pages: dict[str, None] = {}
    records = columns = 0
    unread = collections.Counter[str]()
    for header, fields in rows_of(source, log):
        pages[header.page] = None
        what = what_of(header, fields)
        records, columns = records + (what != UNITS), len(header.columns)
        report.add("read", what, 1)
        if header.page != "raw":
            unread.update(name for name in header.columns if not is_identity(name))
        for text, whole in numbers_of(header, fields):
            evidence.see(text, whole=whole)
    if not records and log.console:
        message = f"{source.label}: {CONSOLE}."
        raise NotATraceError(message)
    if not records:
        said = log.complaint or "The file holds no table of ncu: profile with `ncu --csv --log-file FILE`."
        message = f"{source.label}: ncu profiled no kernel. {said}"
        raise NotATraceError(message)
    try:
        style = evidence.style()
    except ValueError as error:
        message = (
            f"{source.label}: {error}. Numbers follow the locale of the shell: print the page again with "
            "`LC_ALL=C ncu --import REPORT.ncu-rep --page raw --csv > FILE`."
        )
        raise UnreadableTraceError(message) from error
    log.add_to(report)
    COLUMNS.account(unread, report)
    return PrintedFile(source, log, style, tuple(sorted(pages, key=PAGES.index)), records, columns, report)


def _read(file: PrintedFile, capture: Capture) -> None:
    completeness = Completeness()
    try:
        for kernel in kernels(rows_of(Source(file.source.path), Log())):
            if kernel.is_range:
                file.report.add("skipped", NO_KERNELS, 1)
                continue
            completeness.see(kernel)
            for cell in kernel.unread_ranges:
                file.report.add("unread", ODD_RANGES, 1, cell)
            found = list(measures(kernel, file.style))
            passes = file.log.passes.get(kernel.key[1])
            if passes is not None:  # as ncu logs them: the metric of that name where the page does not hold it
                name = "profiler__replayer_passes"
                found.append(Measure(name, float(passes), None, "pass", 0.5, None, "==PROF==", None))
            capture.add(kernel, found, attributes(kernel, file.style), (file.source.path, kernel.page))
    except launches.ContradictionError as error:
        message = f"{file.source.label}: {error}; these pages are not of one report: put each into a file of its own."
        raise UnreadableTraceError(message) from error
    file.report.add("note", "metrics that only the last launch lacks: the page may be cut", completeness.missing)
    capture.flush()


def close(capture: Capture, files: list[PrintedFile], options: Options, era: str) -> Manifest:
    """Write what a capture holds, and finish the spool."""
    capture.join_pages()
    output, signer = capture.output, Signer()
    signed = signer.sign(launches.frame(capture.known.values(), files[0].report))
    output.write("launches", signed.drop("name", *launches.AXES, *PRODUCTS))
    signer.write(output.spool)
    report = files[0].report
    output.write("devices", frame_of(list(capture.devices.values()), launches.DEVICES, report))
    report.add("stored", "launches", signed.height)
    report.add("note", "metrics printed more than once", capture.repeated)
    report.add("note", "shared memory rounded by the print", signed["quality"].count())
    for file in files[1:]:
        file.report.add("stored", "pages joined to the launches of another file", 1)
    hosts = sorted(capture.facts.get("Host Name", set()) - set(LOCAL))
    output.launches = len(capture.known)
    return output.finish(
        options,
        sniff.trace_name([file.source.path for file in files]),
        [File(file.source, "+".join(file.pages), file.records, file.report) for file in files],
        kind="profiled",
        era=era,
        host=hosts[0] if hosts else None,
        metadata=json.dumps(_metadata(capture, files, options)),
        **FACTS,
    )


def _metadata(capture: Capture, files: list[PrintedFile], options: Options) -> dict[str, Any]:
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


def _convert_summary(files: list[PrintedFile], folder: Path, options: Options) -> Manifest:
    """The spool of a page of `--print-summary`: sums over the launches of each kernel, without the launches.

    Raises UnreadableTraceError where other pages are in the same file.
    """
    for file in files:
        if file.pages != ("summary",) or len(files) > 1:
            message = f"{file.source.label}: a summary beside other pages. Put each page into a file of its own."
            raise UnreadableTraceError(message)
    file, output, signer = files[0], Output(folder), Signer()
    found: dict[tuple[str, ...], Kernel] = {}
    for identity, _ in _records(file):
        found.setdefault(tuple(identity.values()), Kernel(identity, "summary"))
    summed = list(found.values())
    listed = [launches.launch_of(kernel, at) for at, kernel in enumerate(summed)]
    signed = signer.sign(launches.frame(listed, file.report))
    ids = signed.select("signature_id", row="launch_index")
    metrics = frame_of(list(_metrics(file)), METRICS)
    sums = frame_of(list(_sums(summed, metrics, file.style)), ROLLUPS)
    for table, rows_ in (("metrics", metrics), ("rollups", sums)):
        output.write(table, rows_.join(ids, on="row", how="left").drop("row"))
    signer.write(output.spool)
    devices = {kernel.identity.get("Device"): launches.device_row(kernel, {}) for kernel in summed}
    output.write("devices", frame_of(list(devices.values()), launches.DEVICES))
    file.report.add("stored", "kernels of a summary", len(summed))
    file.report.add("stored", "values of a summary", metrics.height)
    return output.finish(
        options,
        sniff.trace_name([file.source.path]),
        [File(file.source, "summary", file.records, file.report)],
        kind="summary",
        era="ncu csv summary",
        metadata=json.dumps({"columns": [file.columns]}),
        **FACTS,
    )


def _records(file: PrintedFile) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    for header, fields in rows_of(Source(file.source.path), Log()):
        row = dict(zip(header.columns, fields, strict=False))
        yield {name: text for name, text in row.items() if is_identity(name)}, row


def _metrics(file: PrintedFile) -> Iterator[tuple[Any, ...]]:
    order: dict[tuple[str, ...], int] = {}
    for identity, row in _records(file):
        at = order.setdefault(tuple(identity.values()), len(order))
        metric = canonical(row["Metric Name"], row.get("Section Name"), row.get("Body Item Label") or None)
        exponent, unit = base_unit(row["Metric Unit"])
        for column, instance in SPREAD.items():
            text = row.get(column)
            if text:
                value, precision = file.style.read(text, exponent) or (None, None)
                kept = text if value is None else None
                yield (at, metric, value, kept, unit, precision, instance, row["Metric Name"], row.get("Section Name"))


def _sums(summed: list[Kernel], metrics: pl.DataFrame, style: Style) -> Iterator[tuple[Any, ...]]:
    timed = metrics.filter(pl.col("metric") == launches.DURATION)
    spread = {(row["row"], row["instance"]): row["value"] for row in timed.iter_rows(named=True)}
    for at, kernel in enumerate(summed):
        number = style.read(kernel.identity.get("Invocations") or "1")
        n = 1 if number is None else int(number[0])
        average, low, high = (spread.get((at, name)) for name in SPREAD.values())
        total = None if average is None else whole_ns(average * n)
        device = launches.device_row(kernel, {})["device"]
        shortest, longest = (whole_ns(value) for value in (low, high))
        cells = [cell for column, cell in kernel.identity.items() if column.startswith("Range:")]
        phase = phase_of([name for cell in cells for name in summary_ranges(cell)])
        yield at, "report", device, phase, "profiled", n, n if average is not None else 0, total, shortest, longest
