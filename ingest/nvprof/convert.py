"""Texts that nvprof printed as CSV, of all its generations.

The header is followed by a row of units, one per column (`s,ms,,…,B,KB,MB,GB/s,…`); the summary of 2016 glues units to
the values instead (`542.36ms`). Names with commas are quoted, but not in 2016. Lines that begin with `==` are remarks.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.batch import Manifest
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import readers, sqlite
from kerneldb.ingest.columns import schema
from kerneldb.ingest.launches import IDENTITY, Signer, with_occupancy
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.nsys import reports, store
from kerneldb.ingest.nsys.convert import convert_tables
from kerneldb.ingest.nsys.printed import device_rows
from kerneldb.ingest.nsys.store import Schema
from kerneldb.ingest.output import File, Output
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, text_of

TIME_NS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
POWERS: Final = {"B": 0, "KB": 1, "MB": 2, "GB": 3}
UNITS: Final = frozenset({*TIME_NS, *POWERS, "%", ""})
BINARY: Final = 1024
DECIMAL: Final = 1000
NUMBER: Final = re.compile(r"\s*(-?\d+(?:\.(\d+))?)\s*([A-Za-z%/]*)\s*$")
CORRELATED: Final = re.compile(r"^(.*\S) \[(\d+)\]$", re.DOTALL)
DEVICE: Final = re.compile(r"^(.*?) ?\((\d+)\)$")
TRACE: Final = frozenset({"Start", "Duration", "Grid X", "Block X", "Device", "Stream", "Name"})
SUMMARY: Final = frozenset({"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"})
GPU: Final = "GPU activities"
KINDS_OF_ROWS: Final = frozenset({GPU, "API calls", "OpenACC (incl)", "OpenACC (excl)", "OpenMP (incl)"})
READING: Final = re.compile(
    r"\s*(?:(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg|Start\s+Duration\s+(?:Grid Size\s+Block Size|\w))"
)
RECORD: Final = (
    "Record with `nvprof --csv --print-gpu-trace --log-file FILE.csv PROGRAM`; on a GPU of compute capability 8.0 or "
    "higher (A100 and later), which nvprof does not see, with `nsys profile`."
)
PRINT_AGAIN: Final = "Print it again: `nvprof --csv --print-gpu-trace --import-profile FILE`."
PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "StringIds": ("StringTable",),
    f"{PREFIX}KERNEL": (f"{PREFIX}CONCURRENT_KERNEL", f"{PREFIX}KERNEL"),
    f"{PREFIX}MEMCPY": (f"{PREFIX}MEMCPY",),
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
LEDGER: Final = Ledger(
    "table",
    frozenset(itertools.chain.from_iterable(SOURCES.values())),
    {
        f"{PREFIX}(RUNTIME|DRIVER)": "calls of the API",
        f"{PREFIX}(UNIFIED_MEMORY_COUNTER|MEMORY\\w*)": "counters of unified memory and allocations",
        f"{PREFIX}(MARKER\\w*|NAME)": "NVTX ranges and names",
        f"{PREFIX}(EVENT|METRIC|INSTANTANEOUS_(EVENT|METRIC))\\w*": "counters",
        f"{PREFIX}(OVERHEAD|ENVIRONMENT|SYNCHRONIZATION|CUDA_EVENT|PREEMPTION|CDP_KERNEL)": "an event beside GPU work",
        f"{PREFIX}(CONTEXT|STREAM|MODULE|FUNCTION|PCIE|NVLINK|DEVICE_ATTRIBUTE)": "parts of program and machine",
        f"{PREFIX}(SOURCE_LOCATOR|BRANCH|GLOBAL_ACCESS|SHARED_ACCESS|PC_SAMPLING\\w*|INSTRUCTION\\w*)": "source lines",
        f"{PREFIX}(OPENACC\\w*|OPENMP|EXTERNAL_CORRELATION|MEMCPY2|MEMSET2)": "OpenACC, OpenMP and other programs",
        r"(CUPTI|NVPROF|nvprof)\w*|Version|DRIVER\w*|FILENAME\w*|sqlite_\w+|SAMPLING\w*": "facts about the recording",
    },
)
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
ENDINGS: Final = (".gz", ".csv", ".log", ".txt", ".nvvp", ".nvprof", ".sqlite")


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A printed value in base units (ns or bytes), and the last digit that was printed."""

    value: float
    step: float


@dataclasses.dataclass(slots=True)
class Printed:
    """One table of a text: its columns, units and rows, and how many lines belong to other programs."""

    columns: tuple[str, ...]
    units: tuple[str, ...] = ()
    rows: list[dict[str, str]] = dataclasses.field(default_factory=list)
    other_lines: int = 0

    @property
    def is_trace(self) -> bool:
        """Whether rows are single activities, and not sums."""
        return set(self.columns) >= TRACE

    def unit(self, column: str) -> str:
        """The unit of a column, empty where none is printed."""
        return dict(zip(self.columns, self.units, strict=False)).get(column, "")


def read(text: str, label: str) -> Printed:
    """The first table of a text.

    Raises NotATraceError for tables made for reading, for tables of other kinds and for those without rows,
    UnreadableTraceError where the text is cut or damaged.
    """
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if "," in line and _is_header(line)), None)
    if start is None and any(READING.match(line) for line in lines):
        message = f"{label}: a table of nvprof made for reading, where names are cut. {PRINT_AGAIN}"
        raise NotATraceError(message)
    if start is None:
        message = f"{label}: a text of nvprof without a table: nothing was recorded. {RECORD}"
        raise NotATraceError(message)
    found = Printed(tuple(next(csv.reader([lines[start]]))))
    if not (found.is_trace or set(found.columns) >= SUMMARY):
        message = f"{label}: a table of nvprof without GPU work ({', '.join(found.columns[:4])}, …). {PRINT_AGAIN}"
        raise NotATraceError(message)
    found.other_lines = sum(1 for line in lines[:start] if line.strip() and not line.startswith("=="))
    _fill(found, lines, start + 1, label)
    if not text.endswith("\n"):  # nvprof ends every row with a line feed
        message = f"{label}: the text ends inside a row, so it is cut. {PRINT_AGAIN}"
        raise UnreadableTraceError(message)
    if not found.rows:
        message = f"{label}: the table of nvprof holds no rows: nothing was recorded. {RECORD}"
        raise NotATraceError(message)
    return found


def _is_header(line: str) -> bool:
    names = {name.strip() for name in next(csv.reader([line]), [])}
    return {"Start", "Duration"} <= names or names >= SUMMARY


def _fill(found: Printed, lines: Sequence[str], first: int, label: str) -> None:
    """Take the rows from line `first` (from 0). A row is one line: names hold no line feed."""
    width = len(found.columns)
    for number, line in enumerate(lines[first:], start=first + 1):
        fields = next(csv.reader([line]), [])
        if not fields or fields[0].startswith("=="):
            continue
        is_units = any(fields) and all(field.strip() in UNITS or field.strip().endswith("/s") for field in fields)
        if not found.rows and not found.units and is_units:
            found.units = tuple(fields)
        elif _begins_row(found, fields) and (len(fields) < width or line.count('"') % 2):
            has = "an open quote" if line.count('"') % 2 else f"{len(fields)} fields where the header has {width}"
            message = f"{label}: line {number} has {has}: the text is cut or damaged there. {PRINT_AGAIN}"
            raise UnreadableTraceError(message)
        elif len(fields) < width:
            found.other_lines += 1
        else:  # surplus commas are in the unquoted name
            name, end = found.columns.index("Name"), found.columns.index("Name") + len(fields) - width + 1
            found.rows.append(
                dict(zip(found.columns, [*fields[:name], ",".join(fields[name:end]), *fields[end:]], strict=True))
            )


def _begins_row(found: Printed, fields: Sequence[str]) -> bool:
    """Whether the first fields are those of a row, and not of a line that another program printed."""
    if found.columns[0] == "Type":
        return fields[0] in KINDS_OF_ROWS
    return len(fields) > 1 and all(NUMBER.match(field) for field in fields[:2])


def time(text: str, unit: str) -> Number | None:
    """A time in ns; the unit of the value itself goes before that of the column."""
    return _number(text, unit, TIME_NS)


def size(text: str, unit: str, base: int) -> Number | None:
    """A size in bytes, with `base` bytes to the KB."""
    return _number(text, unit, {name: float(base**power) for name, power in POWERS.items()})


def _number(text: str, unit: str, scales: Mapping[str, float]) -> Number | None:
    match = NUMBER.match(text)
    if match is None:
        return None
    scale = scales.get(match.group(3) or unit, 1.0)
    return Number(float(match.group(1)) * scale, scale / 10 ** len(match.group(2) or ""))


def kilobyte(found: Printed) -> int:
    """Bytes in a KB of this file: 1024 since CUDA 8, 1000 before; sizes are whole bytes with the right one."""
    for column in ("Static SMem", "Dynamic SMem", "Size"):
        for text in (row[column] for row in found.rows if column in found.columns):
            binary = size(text, found.unit(column), BINARY)
            if binary is not None and binary.step < 1 and abs(binary.value - round(binary.value)) > binary.step:
                return DECIMAL
    return BINARY


def name_of(text: str) -> tuple[str, int | None]:
    """The name of an activity, and the correlation id that nvprof puts behind it in brackets."""
    match = CORRELATED.match(text)
    return (text, None) if match is None else (match.group(1), int(match.group(2)))


def device_of(text: str) -> tuple[str | None, int | None]:
    """Name and number of a device printed as `TITAN Xp (0)`."""
    match = DEVICE.match(text)
    return (text or None, None) if match is None else (match.group(1), int(match.group(2)))


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


def launches(found: Printed) -> pl.DataFrame:
    """Rows of `launches` with the columns of identity and `device_name`.

    `quality` names what is rounded: starts (six decimals of a second), durations above 1 ns, sizes above 1 byte.
    """
    base = kilobyte(found)
    ran = [row for row in found.rows if not is_event(row["Name"])]
    frame = pl.DataFrame([_launch(found, row, base) for row in ran], schema=LAUNCH)
    frame = frame.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), launch_status=pl.lit("no_launch"))


def is_event(name: str) -> bool:
    """Whether a row is an event of unified memory (a page fault, thrashing) and nothing that a GPU ran."""
    return name.startswith("[Unified Memory ") and "memcpy" not in name.lower()


def sums(found: Printed) -> pl.DataFrame:
    """Rows of `rollups` with the columns of identity: GPU activities, without calls of the API."""
    rows = []
    for row in filter(_is_of_gpu, found.rows):
        n = _integer(row["Calls"])
        times_ns = [_nanoseconds(time(row[column], found.unit(column))) for column in TIMES.values()]
        rows.append((name_of(row["Name"])[0], n, n, *times_ns))
    frame = pl.DataFrame(rows, schema=SUM, orient="row")
    return _kinds(frame).with_columns(timing=pl.lit("timeline"), origin=pl.lit("report"))


def _is_of_gpu(row: Mapping[str, str]) -> bool:
    """Whether a row sums up what a GPU ran. Before the column Type came, a second table listed calls of the API."""
    name = row["Name"]
    is_call = name.startswith(("cuda", "cu")) and name[4:5].isupper() and "(" not in name
    return (row["Type"] == GPU if "Type" in row else not is_call) and not is_event(name)


def _kinds(frame: pl.DataFrame) -> pl.DataFrame:
    name = pl.col("name")
    return frame.with_columns(kind=reports.kind(name), copy_kind=reports.copy_kind(name))


def _launch(found: Printed, row: Mapping[str, str], base: int) -> dict[str, Any]:
    name, correlation = name_of(row["Name"])
    device_name, device = device_of(row["Device"])
    start, duration = (time(row[column], found.unit(column)) for column in ("Start", "Duration"))
    shared = {key: _size(found, row, column, base) for key, column in SHARED.items()}
    moved = _size(found, row, "Size", base)
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


def _size(found: Printed, row: Mapping[str, str], column: str, base: int) -> Number | None:
    return size(row.get(column, ""), found.unit(column), base)


def _is_rounded(number: Number | None) -> bool:
    return number is not None and number.step > 1


def _nanoseconds(number: Number | None) -> int | None:
    return None if number is None else times.whole_ns(number.value)


def _whole(number: Number | None) -> int | None:
    return None if number is None else round(number.value)


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.strip().lstrip("-").isdecimal() else None


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
            NvvpStore(database), [one], folder, options, name, facts, ledger=LEDGER, progress=progress
        )


def _convert_text(one: Source, folder: Path, options: Options, name: str, progress: Progress | None) -> Manifest:
    found = read(text_of(one).decode("utf-8", errors="replace"), one.label)
    if progress is not None:
        progress(one.stored_bytes, one.stored_bytes)
    signer, output = Signer(), Output(folder, [one])
    if found.is_trace:
        made = launches(found).with_row_index("launch_index").cast({"launch_index": pl.Int64})
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
    report = output.report
    events = sum(is_event(row["Name"]) for row in found.rows)
    report.add("stored", "GPU activity" if found.is_trace else "sum over GPU activities", made.height)
    report.add("skipped", "event of unified memory that is not a copy", events)
    report.add("skipped", "sum over calls of the API", len(found.rows) - made.height - events)
    report.add("skipped", "line of other programs", found.other_lines)
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
