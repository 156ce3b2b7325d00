"""Converts an export, SQLite or Parquet folder: both hold the same tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest, Spool
from kerneldb.ingest import finishing, source, sqlite
from kerneldb.ingest.nsys import facts, heads
from kerneldb.ingest.nsys.activities import Activities
from kerneldb.ingest.nsys.calls import Calls
from kerneldb.ingest.nsys.printed import READER_VERSION
from kerneldb.ingest.nsys.ranges import Ranges
from kerneldb.ingest.nsys.store import ParquetStore, SqliteStore, Store, frame
from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Unit
from kerneldb.ingest.report import Report
from kerneldb.ingest.source import Source, trace_id_of

STRINGS: Final = {"id": pl.Int64, "value": pl.String}
UNREAD: Final = {
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "synchronisation",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "CUDA event",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "overhead of the profiler",
    "OSRT_API": "call of the OS runtime",
    "COMPOSITE_EVENTS": "CPU sample",
    "SCHED_EVENTS": "scheduling event",
    "GPU_METRICS": "sample of a GPU metric",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "allocation on the device",
}
"""Table that is not stored → what a row of it is."""
STORED: Final = {"kernel": "kernel", "memcpy": "copy", "memset": "fill", "graph": "CUDA graph"}
ROW_BYTES: Final = 54
"""Bytes of a row of kernels or calls in a real export, on average."""
HIDDEN: Final = "CUDA graph recorded as a whole: its kernels are not in the export"


def convert_file(path: Path, place: Path, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert an export as SQLite; a compressed one is unpacked into `place`. The file itself is never written."""
    one = Source(path)
    with sqlite.open_database(source.local_file(one, place)) as database:
        store = SqliteStore(database)
        found = facts.trace_facts(store, "sqlite", options.keep_environment)
        return Conversion(store, [one], folder).run(options, heads.stem_of(path), found, progress)


def convert_folder(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert a folder of Parquet files."""
    read = [Source(file) for file in unit.files]
    for one in read:
        source.digest(one)
    place = unit.files[0].parent
    name = place.name.removesuffix("_pqtdir") or place.name
    store = ParquetStore(place)
    found = facts.trace_facts(store, "parquetdir", options.keep_environment)
    return Conversion(store, read, folder).run(options, name, found, progress)


class Conversion:
    """Tables in the names of Nsight Systems on their way into a spool."""

    def __init__(self, store: Store, read: Sequence[Source], folder: Path) -> None:
        self._store = store
        self._read = read
        self._trace_id = trace_id_of(read)
        self._spool = Spool(folder)
        self._strings = frame(store, "StringIds", STRINGS).unique("id", maintain_order=True)
        self._spool.guard.until(facts.recorded_ns(store))
        self._ranges = Ranges(store, self._strings, self._spool.guard.window_end_ns)
        self._calls = Calls(store, self._strings, self._ranges)
        self._report = Report()

    def run(self, options: Options, name: str, found: Mapping[str, Any], progress: Progress | None) -> Manifest:
        """Write all tables and finish the spool. `found` are the columns of `traces` that the file tells."""
        follow = _Steps(progress, sum(one.stored_bytes for one in self._read))
        for part in self._calls.slices():
            self._write("api_calls", part)
            follow.advance(part.height)
        devices = facts.devices(self._store)
        arch_of_device = facts.arch_of_device(devices)
        activities = Activities(self._store, self._strings, self._calls, self._ranges, arch_of_device)
        for part in activities.slices():
            self._write("launches", part)
            follow.advance(part.height)
        self._write("ranges", self._ranges.rows)
        self._write("devices", devices)
        self._write("kernel_symbols", activities.symbols())
        self._spool.write("signatures", activities.signer.signatures())
        self._spool.write("kernel_names", activities.signer.names())
        self._account(activities)
        return self._finish(finishing.trace_row(self._read, options, name, **found, **self._facts(activities)))

    def _write(self, table: str, rows: pl.DataFrame) -> None:
        self._spool.write(table, rows.with_columns(trace_id=pl.lit(self._trace_id)))

    def _account(self, activities: Activities) -> None:
        seen, report = activities.seen, self._report
        for kind, number in seen.kinds.items():
            report.add("stored", STORED[kind], number)
        report.add("stored", "runtime or driver call", self._calls.count)
        report.add("stored", "NVTX range or mark", self._ranges.rows.height)
        report.add("note", HIDDEN, seen.kinds.get("graph", 0))
        report.add("note", "NVTX range that the recording cut", self._ranges.unfinished)
        for table, what in UNREAD.items():
            report.add("skipped", what, self._store.count(table))

    def _facts(self, activities: Activities) -> dict[str, Any]:
        start, end = times.widened(activities.seen.window, self._calls.window)
        return {
            "window_start_ns": start,
            "window_end_ns": end,
            "has_shapes": False,
            "has_stacks": False,
            "launches": sum(activities.seen.kinds.values()),
            "reader_version": READER_VERSION,
        }

    def _finish(self, row: dict[str, Any]) -> Manifest:
        counted = ("stored", "skipped")
        events = sum(n for (outcome, _), (n, _) in self._report.counts.items() if outcome in counted)
        files = [finishing.file_row(one, "export", None) for one in self._read]
        files[0]["events"] = events
        reports = [self._report, *(Report() for _ in files[1:])]
        return finishing.finish(self._spool, row, files, reports)


class _Steps:
    """Progress in bytes of the file, estimated from the rows read so far."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._rows = progress, total, 0

    def advance(self, rows: int) -> None:
        """Count rows."""
        self._rows += rows
        if self._progress is not None:
            self._progress(min(self._rows * ROW_BYTES, self._total), self._total)
