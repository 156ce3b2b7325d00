"""Texts and databases of nvprof as one spool."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.ingest import digits, readers, sqlite
from kerneldb.ingest.columns import frame_of, schema
from kerneldb.ingest.delimited import NO_END
from kerneldb.ingest.launches import IDENTITY, Signer, with_occupancy
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.nsys import reports, store
from kerneldb.ingest.nsys.convert import convert_tables
from kerneldb.ingest.nsys.printed import device_rows
from kerneldb.ingest.nsys.store import Schema
from kerneldb.ingest.nvprof import text
from kerneldb.ingest.nvprof.text import Number, Printed
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "StringIds": ("StringTable",),
    f"{PREFIX}KERNEL": (f"{PREFIX}CONCURRENT_KERNEL", f"{PREFIX}KERNEL", f"{PREFIX}CDP_KERNEL"),
    f"{PREFIX}MEMCPY": (f"{PREFIX}MEMCPY", f"{PREFIX}MEMCPY2"),
    f"{PREFIX}MEMSET": (f"{PREFIX}MEMSET",),
    "TARGET_INFO_GPU": (f"{PREFIX}DEVICE",),
}
RENAMED: Final[Mapping[str, str]] = {
    "id": "_id_",
    "demangledName": "name",
    "sharedMemoryExecuted": "sharedMemoryExecuted",
    "computeMajor": "computeCapabilityMajor",
    "computeMinor": "computeCapabilityMinor",
    "smCount": "numMultiprocessors",
    "totalMemory": "globalMemorySize",
    "threadsPerWarp": "numThreadsPerWarp",
    "maxWarpsPerSm": "maxWarpsPerMultiprocessor",
    "maxRegistersPerSm": "maxRegistersPerMultiprocessor",
    "maxShmemPerSm": "maxSharedMemoryPerMultiprocessor",
}
"""Column of Nsight Systems → column of nvprof."""
DEVICE_TABLE: Final = "TARGET_INFO_GPU"
AXES: Final = {
    f"{shape}_{axis}": f"{shape.capitalize()} {axis.upper()}" for shape in ("grid", "block") for axis in "xyz"
}
PLAIN: Final = {**AXES, "registers": "Registers Per Thread", "context": "Context", "stream": "Stream"}
SHARED: Final = {"static_shared_bytes": "Static SMem", "dynamic_shared_bytes": "Dynamic SMem"}
LAUNCH: Final = schema(
    "grid_x grid_y grid_z block_x block_y block_z registers context stream device device_name name correlation_id "
    "start_ns duration_ns end_ns bytes static_shared_bytes dynamic_shared_bytes shared_bytes quality"
)
SUM: Final = schema("name n timed total_ns min_ns max_ns")
TIMES: Final = {"total_ns": "Time", "min_ns": "Min", "max_ns": "Max"}
TOOL: Final = "nvprof"
ACTIVITIES: Final = Ledger(
    "activity",
    ("kernel", "memcpy", "memset"),
    {
        "API calls": "calls of the host in texts of nvprof are not read; those of nsys are",
        "without a grid": "a call of the host or a range, since kernels have a grid",
        r"\[Unified Memory .*": "an event of unified memory (a page fault, thrashing), nothing that a GPU ran",
        r"OpenACC \(\w+\)|OpenMP \(\w+\)": "regions of the host",
        r"Range \S.*|\[(?:Range|Marker)\b.*": "a range of NVTX",
    },
)
TABLES: Final = Ledger(
    "table",
    (),
    {
        "API calls": "calls of the host in texts of nvprof are not read; those of nsys are",
        "Unified Memory profiling result": "sums over transfers and page faults of unified memory",
        "OpenACC.*|OpenMP.*|System profiling result|NVTX result|NVLink.*": "not work of a GPU",
        ".*[Mm]etric result|.*[Ee]vent result": "counters of nvprof; those of Nsight Compute are read",
    },
)
COLUMNS: Final = Ledger(
    "column",
    {
        *("Start", "Duration", "Device", "Context", "Stream", "Name", "Correlation_ID", "Size", "Type", "Calls"),
        *(*PLAIN.values(), *SHARED.values(), *TIMES.values()),
    },
    {
        "Throughput": "size over duration",
        r"Time\(%\)|Avg": "follows from the time and the number of calls",
        "SrcMemType|DstMemType": "pageable, pinned or device memory of a copy",
        "Unified Memory|Virtual Address": "of events of unified memory",
    },
    outcome="unread",
)
DATABASE: Final = Ledger(
    "table",
    frozenset(itertools.chain.from_iterable(SOURCES.values())),
    {
        f"{PREFIX}(RUNTIME|DRIVER)": "calls of the host in files of nvprof are not read; those of nsys are",
        f"{PREFIX}(UNIFIED_MEMORY_COUNTER|MEMORY\\w*)": "counters of unified memory and allocations",
        f"{PREFIX}(MARKER\\w*|NAME)": "ranges of NVTX in files of nvprof are not read; those of nsys are",
        f"{PREFIX}(EVENT|METRIC|INSTANTANEOUS_(EVENT|METRIC))\\w*": "counters",
        f"{PREFIX}(OVERHEAD|ENVIRONMENT|SYNCHRONIZATION|CUDA_EVENT|PREEMPTION|CDP_KERNEL)": "an event beside GPU work",
        f"{PREFIX}(CONTEXT|STREAM|MODULE|FUNCTION|PCIE|NVLINK|DEVICE_ATTRIBUTE)": "parts of program and machine",
        f"{PREFIX}(SOURCE_LOCATOR|BRANCH|GLOBAL_ACCESS|SHARED_ACCESS|PC_SAMPLING\\w*|INSTRUCTION\\w*)": "source lines",
        f"{PREFIX}(OPENACC\\w*|OPENMP|EXTERNAL_CORRELATION|MEMSET2)": "OpenACC, OpenMP and other programs",
        r"(CUPTI(?!_ACTIVITY)|NVPROF|nvprof)\w*|Version|(DRIVER|FILENAME|SAMPLING|sqlite_)\w*": "about the recording",
    },
)
ENDINGS: Final = (".gz", ".csv", ".log", ".txt", ".nvvp", ".nvprof", ".sqlite")


class NvvpStore:
    """Tables of an nvprof file under the names that Nsight Systems gave them. Calls and ranges are left out."""

    def __init__(self, database: sqlite.Database) -> None:
        self._database = database
        self._tables = database.tables()

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of the tables that make up one of Nsight Systems."""
        for source in SOURCES.get(table, ()):
            if source in self._tables:
                yield from self._database.frames(self._select(table, source, schema), schema)

    def names(self) -> frozenset[str]:
        """All tables, under the names of nvprof."""
        return frozenset(self._database.tables()) - self._database.views()

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self._database.count(table)

    def _select(self, table: str, source: str, schema: Schema) -> str:
        present, chosen = self._tables[source], []
        for name in schema:
            wanted = "id" if table == DEVICE_TABLE and name == "id" else RENAMED.get(name, name)
            if table == DEVICE_TABLE and name == "name":
                chosen.append("(SELECT value FROM StringTable WHERE _id_ = name)")
            elif table == DEVICE_TABLE and name == "clockRate" and "coreClockRate" in present:
                chosen.append("coreClockRate * 1000")
            else:
                chosen.append(sqlite.quoted(wanted) if wanted in present else "NULL")
        return " ".join(("SELECT", ", ".join(chosen), "FROM", sqlite.quoted(source)))


def launches(found: Printed, report: Report) -> pl.DataFrame:
    """Rows of `launches` with the columns of identity and `device_name`.

    `quality` names what is rounded: starts (six decimals of a second), durations above 1 ns, sizes above 1 byte.
    """
    base = text.kilobyte(found)
    frame = frame_of([_launch(row, base) for row in text.of_gpu(found)], LAUNCH, report)
    frame = frame.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), launch_status=pl.lit("no_launch"))


def sums(found: Printed) -> pl.DataFrame:
    """Rows of `rollups` with the columns of identity: GPU activities, without calls of the API."""
    rows = []
    for row in text.of_gpu(found):
        n = _integer(row["Calls"])
        times_ns = [_nanoseconds(text.time(row[column])) for column in TIMES.values()]
        rows.append((text.name_of(row["Name"])[0], n, n, *times_ns))
    frame = frame_of(rows, SUM)
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), origin=pl.lit("report"))


def _kinds(frame: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("name")
    return frame.with_columns(kind=reports.kind(name), copy_kind=reports.copy_kind(name))


def _launch(row: Mapping[str, str], base: int) -> dict[str, Any]:
    name, correlation = text.name_of(row["Name"])
    device_name, device = text.device_of(row["Device"])
    start, duration = (text.time(row[column]) for column in ("Start", "Duration"))
    shared = {key: text.size(row.get(column, ""), base) for key, column in SHARED.items()}
    moved = text.size(row.get("Size", ""), base)
    static, dynamic = (_whole(one) for one in shared.values())
    coarse = {
        "start_rounded": _is_rounded(start),
        "duration_rounded": _is_rounded(duration),
        "bytes_rounded": _is_rounded(moved),
        "shared_rounded": any(map(_is_rounded, shared.values())),
    }
    return {
        **{key: _integer(row.get(column)) for key, column in PLAIN.items()},
        "name": name,
        "correlation_id": correlation if correlation is not None else _integer(row.get("Correlation_ID")),
        "device": device,
        "device_name": device_name,
        "start_ns": _nanoseconds(start),
        "duration_ns": _nanoseconds(duration),
        "end_ns": None,
        "bytes": _whole(moved),
        "static_shared_bytes": static,
        "dynamic_shared_bytes": dynamic,
        "shared_bytes": static + dynamic if static is not None and dynamic is not None else None,
        "quality": ",".join(name for name, rounded in coarse.items() if rounded) or None,
    }


def _is_rounded(number: Number | None) -> bool:
    return number is not None and number.step > 1


def _nanoseconds(number: Number | None) -> int | None:
    return None if number is None else times.whole_ns(number.value)


def _whole(number: Number | None) -> int | None:
    return None if number is None else round(number.value)


def _integer(text: str | None) -> int | None:
    return digits.whole(text)


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    """Convert one file into the spool `folder`. Raises NotATraceError and UnreadableTraceError as the parsers do."""
    one, name = Source(unit.files[0]), unit.files[0].name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    name = name or unit.files[0].name
    if not sqlite.is_database(readers.head_of(one.path).data):
        return _convert_text(one, folder, options, name, progress)
    facts = {"source": TOOL, "kind": "timeline", "tool": TOOL, "era": "sqlite", "clock": "capture"}
    with sqlite.opened(one, folder) as database:
        return convert_tables(
            NvvpStore(database), [one], folder, options, name, facts, ledger=DATABASE, progress=progress
        )


def _convert_text(one: Source, folder: Path, options: Options, name: str, progress: Progress | None) -> Manifest:
    found = text.read(text_of(one).decode("utf-8", errors="replace"), one.label)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    signer, output = Signer(), Output(folder, [one])
    report = output.report
    if found.is_trace:
        made = launches(found, report).with_row_index("launch_index").cast({"launch_index": pl.Int64})
        devices = device_rows(dict(made.select("device", "device_name").unique().drop_nulls().iter_rows()))
        output.write("devices", devices)
        made = with_occupancy(made.drop("device_name"), store.arch_of_device(devices))
        output.window = times.span(made, "start_ns", pl.col("duration_ns"))
        output.launches = made.height
    else:
        made = sums(found)
    signed = signer.sign(made).drop(name for name in IDENTITY if name in made.columns and name != "kind")
    output.write("launches" if found.is_trace else "rollups", signed if found.is_trace else signed.drop("kind"))
    signer.write(output.spool)
    report.add("stored", "GPU activity" if found.is_trace else "sum over GPU activities", made.height)
    ACTIVITIES.account(collections.Counter(map(text.activity, found.rows)), report)
    TABLES.account(found.others, report)
    COLUMNS.account(collections.Counter(name for row in found.rows for name, value in row.items() if value), report)
    report.add("skipped", "line of other programs", found.other_lines)
    report.add("note", NO_END, int(not found.ends))
    return output.finish(
        options,
        name,
        [File(one, "report", len(found.rows), report)],
        kind="timeline" if found.is_trace else "summary",
        source=TOOL,
        tool=TOOL,
        era="gpu trace csv" if found.is_trace else "summary csv",
        clock="capture" if found.is_trace else None,
        reader_version=2,
    )
