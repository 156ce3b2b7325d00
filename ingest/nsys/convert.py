"""Converts a capture of Nsight Systems: an export, SQLite or Parquet folder, which hold the same tables, or a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import readers, sqlite
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.nsys import events, marks, printed, sniff, store
from kerneldb.ingest.nsys.activities import Activities
from kerneldb.ingest.nsys.host import Calls
from kerneldb.ingest.nsys.operators import Operators
from kerneldb.ingest.nsys.printed import READER_VERSION
from kerneldb.ingest.nsys.ranges import Ranges
from kerneldb.ingest.nsys.refusal import refusal
from kerneldb.ingest.nsys.store import ParquetStore, SqliteStore, Store, frame
from kerneldb.ingest.nsys.tables import LEDGER, account
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, digest
from kerneldb.shell import command_line

STRINGS: Final = {"id": pl.Int64, "value": pl.String}
STORED: Final = {"kernel": "kernel", "memcpy": "copy", "memset": "fill", "graph": "CUDA graph"}
CALLED: Final = {
    "cuda": "runtime or driver call",
    "osrt": "call of the OS runtime",
    "cudnn": "call of cuDNN",
    "cublas": "call of cuBLAS",
    "mpi": "call of MPI",
}
OTHERS: Final = {
    "sync_events": "synchronisation or record of an event",
    "samples": "sample of a GPU metric",
    "cpu_samples": "sample of the CPU",
    "memory_events": "allocation or release",
}
"""Table of kerneldb → what its rows are."""
ROW_BYTES: Final = 54
"""Bytes of a row of kernels or calls in a real export, on average."""
HIDDEN: Final = "CUDA graph recorded as a whole: its kernels are not in the export"


UNREAD: Final = "operator with `input_op_ids`: which operators made its inputs is not stored"


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert a capture into the spool `folder`. A database itself is never written.

    Raises NotATraceError for files that nsys has to export or print first, with the command; UnreadableTraceError for
    damaged ones.
    """
    path = unit.files[0]
    if len(unit.files) > 1 or path.suffix == ".parquet":
        return _convert_folder(unit, folder, options, progress)
    head = readers.head_of(path)
    if sniff.is_report_file(head):
        raise refusal(head)
    if not sqlite.is_database(head.data):
        return printed.convert(path, folder, options, progress)
    one = Source(path)
    with sqlite.opened(one, folder) as database:
        tables = SqliteStore(database)
        _refuse_nameless(tables, path, "sqlite")
        facts = store.trace_facts(tables, "sqlite", options.keep_environment)
        return convert_tables(
            tables, [one], folder, options, sniff.base_name(path), facts, ledger=LEDGER, progress=progress
        )


def _convert_folder(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert a folder of Parquet files."""
    read = [Source(file) for file in unit.files]
    for one in read:
        digest(one)
    place = unit.files[0].parent
    tables = ParquetStore(place, read)
    _refuse_nameless(tables, place, "parquetdir")
    facts = store.trace_facts(tables, "parquetdir", options.keep_environment)
    name = place.name.removesuffix("_pqtdir") or place.name
    return convert_tables(tables, read, folder, options, name, facts, ledger=LEDGER, progress=progress)


def convert_tables(
    tables: Store,
    read: Sequence[Source],
    folder: Path,
    options: Options,
    name: str,
    facts: Mapping[str, Any],
    *,
    ledger: Ledger,
    progress: Progress | None,
) -> Manifest:
    """Convert tables in the names of Nsight Systems. `facts` are the columns of `traces` that the file states.

    `ledger` says what the file itself may hold, under its own names.
    """
    output = Output(folder, read)
    strings = frame(tables, "StringIds", STRINGS).unique("id", maintain_order=True)
    output.spool.guard.until(store.recorded_ns(tables))
    read_marks = marks.read(tables, strings)
    ranges = Ranges(read_marks, output.spool.guard.window_end_ns, lambda rows: output.write("ranges", rows))
    operators = Operators(read_marks, ranges, lambda rows: output.write("ops", rows))
    calls = Calls(tables, strings, ranges, operators)
    devices = store.devices(tables, output.report)
    activities = Activities(tables, strings, calls, ranges, operators, store.arch_of_device(devices))
    total, rows = sum(one.stored_bytes for one in read), 0
    for table, slices in (("api_calls", calls.slices()), ("launches", activities.slices())):
        for part in slices:
            output.write(table, part)
            rows += part.height
            if progress is not None:
                progress(min(rows * ROW_BYTES, total), total)
    _write_events(output, tables, strings, calls)
    output.write("devices", devices)
    output.write("kernel_symbols", activities.symbols())
    activities.signer.write(output.spool)
    _count(output, activities, calls, ranges, operators)
    events.warnings(tables, output.report)
    account(tables, ledger, output.report)
    counted = sum(n for (outcome, _), (n, _) in output.report.counts.items() if outcome in ("stored", "skipped"))
    output.window = times.widened(activities.seen.window, calls.window)
    output.launches = sum(activities.seen.kinds.values())
    others = [File(one, "export", None, Report()) for one in read[1:]]
    files = [File(read[0], "export", counted, output.report), *others]
    shapes = operators.have_sizes
    return output.finish(options, name, files, reader_version=READER_VERSION, has_shapes=shapes, **facts)


def _write_events(output: Output, tables: Store, strings: pl.DataFrame, calls: Calls) -> None:
    """Write what is neither GPU work nor a call nor a range."""
    output.write("sync_events", events.synchronisation(tables, calls, output.report))
    for part in events.gpu_metrics(tables, output.report):
        output.write("samples", part)
    for part in events.cpu_samples(tables, strings):
        output.write("cpu_samples", part)
    for part in events.memory(tables, output.report):
        first = output.written["memory_events"]
        output.write("memory_events", part.with_columns(event_index=pl.int_range(first, first + part.height)))


def _count(output: Output, activities: Activities, calls: Calls, ranges: Ranges, operators: Operators) -> None:
    report, kinds = output.report, activities.seen.kinds
    for kind, number in kinds.items():
        report.add("stored", STORED[kind], number)
    for kind, number in calls.counts.items():
        report.add("stored", CALLED[kind], number)
    report.add("stored", "NVTX range or mark", ranges.count)
    report.add("stored", "operator", operators.count)
    for table, what in OTHERS.items():
        report.add("stored", what, output.written[table])
    activities.account(report)
    report.add("note", HIDDEN, kinds.get("graph", 0))
    report.add("note", "NVTX range that the recording cut", ranges.unfinished + operators.unfinished)
    report.add("note", UNREAD, operators.tracked)


def _refuse_nameless(tables: Store, place: Path, form: str) -> None:
    """Kernels, calls and ranges have numbers in place of names, which nothing else tells."""
    if sniff.is_nameless(tables.names()):
        again = command_line(["nsys", "export", "--type", form, "FILE.nsys-rep"])
        message = (
            f"{place}: an export of Nsight Systems without the table StringIds, which has the names of kernels and "
            f"calls. Export all tables: `{again}`."
        )
        raise UnreadableTraceError(message)
