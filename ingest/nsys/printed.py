"""Converts a text that `nsys stats` printed: first a survey of its reports, then those with the most detail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.columns import schema
from kerneldb.ingest.delimited import NO_END
from kerneldb.ingest.launches import IDENTITY, Signer, with_occupancy
from kerneldb.ingest.nsys import reports, sniff, store, sums
from kerneldb.ingest.nsys.text import Reader, Table, print_again
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.readers import Options, Progress
from kerneldb.ingest.source import Source
from kerneldb.shell import command_line, file

READER_VERSION: Final = 2
VENDOR: Final = "NVIDIA"
EXPORT: Final = "Export it: `{line}`, or print a report of kernels."
RECORD: Final = "Record with `nsys profile --trace=cuda,nvtx`."
CALLS: Final = frozenset({"cuda_api_trace", "vulkan_api_trace", "mpi_event_trace"})
RANGES: Final[Mapping[str, Callable[[Table, pl.DataFrame], pl.DataFrame]]] = {
    "nvtx_pushpop_trace": reports.pushed_ranges,
    "nvtx_gpu_proj_trace": reports.projected_ranges,
}
USEFUL: Final = frozenset(
    {
        *(*reports.LAUNCHES, *reports.ORIGINS, *CALLS, *RANGES, reports.SIZES),
        *(*sums.HOST, *sums.UNIFIED, sums.EXECUTION),
    }
)
UNREAD: Final[Mapping[str, str]] = {
    "wddm_queue_sum": "queues of the Windows driver",
    "network_congestion": "congestion of network devices",
}
"""Report that is not read → what it lists."""


def convert(path: Path, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert one text. Raises NotATraceError where no report in it lists GPU work."""
    survey = Reader(Source(path))
    filled = {table.number for table, rows in survey.raw() if rows.strip()}
    if len(survey.notes.recordings) > 1:
        raise _several(survey)
    report = Report()
    wanted = choose([table for table in survey.tables if table.number in filled], report)
    if not wanted:
        raise _nothing(survey, filled)
    for table in survey.tables:
        report.add("note", f"report {table.report} has no rows", int(table.number not in filled))
    return _Conversion(path, folder, options, survey, report).run(wanted, progress)


def choose(tables: Sequence[Table], report: Report) -> dict[int, Table]:
    """The reports to read by number: of several that list or sum the same events, the one with the most detail.

    Variants of one report differ in the names (arguments `base`, `mangled`, `nvtx-name`); the one with the fewest
    arguments has the full names. What is left out is counted in `report`.
    """
    best: dict[str, Table] = {}
    for table in sorted(tables, key=lambda one: (len(one.arguments), one.number)):
        first = best.setdefault(table.report, table)
        if first is not table:
            report.add("skipped", f"report {table.report} once more", 1)
    _drop(best, list(reports.LAUNCHES), report)
    if "cuda_gpu_mem_time_sum" in best:
        _drop(best, ["cuda_gpu_kern_sum", "cuda_gpu_sum"], report)
    for name in best.keys() - USEFUL:
        report.add("skipped", f"report {name}: {UNREAD.get(name, 'it lists no GPU work')}", 1)
    return {table.number: table for name, table in sorted(best.items()) if name in USEFUL}


def _drop(best: dict[str, Table], names: Sequence[str], report: Report) -> None:
    present = [name for name in names if name in best]
    for name in present[1:]:
        del best[name]
        report.add("skipped", f"report {name}: the same work is in {present[0]}, in more detail", 1)


def _several(survey: Reader) -> NotATraceError:
    """Of reports of one name only one would count."""
    names = list(survey.notes.recordings)
    listed = ", ".join(names[:3]) + (f", … ({len(names)} in all)" if len(names) > 3 else "")  # noqa: PLR2004 (few)
    message = (
        f"{survey.source.label}: reports of several recordings ({listed}). Give their exports, or print each into a "
        "file of its own: `nsys stats --format csv --output . FILE.nsys-rep`."
    )
    return NotATraceError(message)


def _nothing(survey: Reader, filled: Set[int]) -> NotATraceError:
    label = survey.source.label
    capture, named, _ = sniff.from_file_name(sniff.base_name(survey.source.path))
    stem = capture or "FILE"
    words = "nsys", "export", "--type", "sqlite", "--output", file(f"{stem}.sqlite"), file(f"{stem}.nsys-rep")
    export = EXPORT.format(line=command_line(words))
    empty = [table.report for table in survey.tables if table.number not in filled and table.report in USEFUL]
    if survey.source.decompressed_bytes == 0:
        message = f"{label}: an empty report: nsys writes one where the recording has no such data. {export}"
    elif survey.notes.skipped and not survey.tables:
        name, reason = next(iter(survey.notes.skipped.items()))
        message = f"{label}: nsys skipped the report {name} ({reason}). {export}"
    elif empty:
        names = ", ".join(dict.fromkeys(empty))
        message = f"{label}: the report {names} holds no rows: nothing was recorded. {RECORD} {export}"
    elif survey.tables:
        names = ", ".join(dict.fromkeys(table.report for table in survey.tables))
        what = "; ".join(UNREAD[table.report] for table in survey.tables if table.report in UNREAD)
        message = f"{label}: the report {names} of nsys, which lists no GPU work ({what}). {export}"
    else:
        message = (
            f"{label}: no header line of the report {named or 'of nsys'}. Print it again without `nohdr`. {export}"
        )
    return NotATraceError(message)


class _Conversion:
    """One text on its way into a spool."""

    def __init__(self, path: Path, folder: Path, options: Options, survey: Reader, report: Report) -> None:
        self._source = Source(path)
        self._output = Output(folder, [survey.source])
        self._options = options
        self._survey = survey
        self._report = report
        self._signer = Signer()
        self._devices: dict[int, str | None] = {}
        self._wanted: frozenset[str] = frozenset()
        self._next_range = 0
        self._rows = 0

    def run(self, wanted: dict[int, Table], progress: Progress | None) -> Manifest:
        """Read the wanted reports and finish the spool."""
        self._wanted = frozenset(table.report for table in wanted.values())
        for table, rows in Reader(self._source).frames(frozenset(wanted)):
            try:
                self._take(table, rows)
            except PolarsError as error:
                message = f"{self._source.label}: the report {table.report} holds a row that cannot be read "
                message += f"({str(error).splitlines()[0]}). {print_again(table.report)}"
                raise UnreadableTraceError(message) from error
            self._rows += rows.height
            self._report.add("stored", f"row of {table.report}", rows.height)
            sniff.COLUMNS.account({column.name: rows.height for column in table.columns}, self._report)
            if progress is not None:
                progress(self._source.read_bytes, self._source.stored_bytes)
        for name, reason in self._survey.notes.skipped.items():
            self._report.add("note", f"nsys skipped the report {name}: {reason}", 1)
        self._report.add("skipped", "line of other programs", self._survey.notes.other_lines)
        self._report.add("note", NO_END, self._survey.notes.open_ends)
        return self._finish(wanted)

    def _take(self, table: Table, rows: pl.DataFrame) -> None:
        if table.report in reports.LAUNCHES:
            self._launches(reports.LAUNCHES[table.report](table, rows))
        elif table.report in reports.ORIGINS:
            self._output.write("rollups", self._signed(reports.rollups(table, self._of_gpu(table, rows))))
        elif table.report == sums.EXECUTION:
            self._executions(table, rows)
        elif table.report == reports.SIZES:
            self._output.write("metrics", self._signed(reports.sizes(table, rows)))
        elif table.report in sums.UNIFIED:
            self._output.write("metrics", sums.unified(table, rows))
        elif table.report in sums.HOST:
            self._output.write("metrics", sums.host(table, rows))
        elif table.report in CALLS:
            self._numbered("api_calls", "api_index", reports.api_trace(table, rows))
        else:
            self._ranges(RANGES[table.report](table, rows))

    def _of_gpu(self, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of GPU work that no other report sums. Where rows have categories, those of calls become metrics."""
        if "Category" not in rows.columns:
            return rows
        others = self._wanted - {table.report}
        category = pl.col("Category")
        again = [name for name, same in sums.CATEGORIES.items() if others.intersection(same)]
        calls = dataclasses.replace(table, report=sums.CALLS)
        called = rows.filter(category == "CUDA_API", ~category.is_in(again))
        if called.height:
            self._output.write("metrics", sums.host(calls, called))
        unknown = rows.filter(~category.is_in(list(sums.CATEGORIES)) | category.is_null())
        self._report.add("skipped", f"row of {table.report} of an unknown category", unknown.height)
        return rows.filter(category.is_in(["CUDA_KERNEL", "MEMORY_OPER"]), ~category.is_in(again))

    def _executions(self, table: Table, rows: pl.DataFrame) -> None:
        self._output.write("metrics", self._signed(sums.launch_times(table, rows)))
        if self._wanted.isdisjoint({*reports.ORIGINS} - {"nvtx_kern_sum", "cuda_gpu_mem_time_sum"}):
            made, rounded = sums.executions(table, rows)
            self._output.write("rollups", self._signed(made))
            self._report.add("note", f"sum of {table.report} from a rounded average: off by some ns", rounded)

    def _ranges(self, made: pl.DataFrame) -> None:
        first = self._output.written["ranges"] and self._next_range
        moved = made.with_columns(pl.col("range_id", "parent_id") + first)
        last = moved["range_id"].max()
        self._next_range = last + 1 if isinstance(last, int) else first
        self._output.write("ranges", moved)

    def _launches(self, made: pl.DataFrame) -> None:
        self._output.window = times.widened(self._output.window, times.span(made, "start_ns", pl.col("duration_ns")))
        if "device_name" in made.columns:
            for number, name in made.select("device", "device_name").unique().drop_nulls("device").iter_rows():
                self._devices[number] = name
            made = with_occupancy(made.drop("device_name"), store.arch_of_device(device_rows(self._devices)))
        self._numbered("launches", "launch_index", self._signed(made).with_columns(timing=pl.lit("timeline")))

    def _signed(self, made: pl.DataFrame) -> pl.DataFrame:
        kept = [name for name in made.columns if name not in IDENTITY or name == "kind"]
        signed = self._signer.sign(made).select(*kept, "signature_id")
        return signed if "launch_status" in signed.columns else signed.drop("kind")

    def _numbered(self, table: str, column: str, made: pl.DataFrame) -> None:
        first = self._output.written[table]
        index = pl.int_range(first, first + made.height, dtype=pl.Int64, eager=True).alias(column)
        self._output.write(table, made.with_columns(index))

    def _finish(self, wanted: dict[int, Table]) -> Manifest:
        output, written = self._output, self._output.written
        output.launches = written["launches"]
        self._signer.write(output.spool)
        output.write("devices", device_rows(self._devices))
        timeline = any(written[table] for table in ("launches", "ranges", "api_calls"))
        names = ", ".join(sorted(table.report for table in wanted.values()))
        table = next(iter(wanted.values()))
        form = "json" if table.line == "[" else "tsv" if table.separator == "\t" else "csv"
        return output.finish(
            self._options,
            sniff.base_name(self._source.path),
            [File(self._source, "report", self._rows, self._report)],
            kind="timeline" if timeline else "summary",
            source="nsys",
            tool="Nsight Systems",
            era=f"{names} {form}",
            clock="capture" if timeline else None,
            reader_version=READER_VERSION,
        )


def device_rows(found: Mapping[int, str | None]) -> pl.DataFrame:
    """Rows of `devices` without trace_id, from the names that a report prints (number → name)."""
    from kerneldb import gpus

    rows = [(number, VENDOR, name, gpus.arch_of(VENDOR, name or "")) for number, name in sorted(found.items())]
    return pl.DataFrame(rows, schema=schema("device vendor name arch"), orient="row")
