"""Texts that nvprof printed as CSV, of all its generations.

The header is followed by a row of units, one per column (`s,ms,,…,B,KB,MB,GB/s,…`); the summary of 2016 glues units to
the values instead (`542.36ms`). Names with commas are quoted, but not in 2016. Lines that begin with `==` are remarks.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kerneldb.errors import NotATraceError, UnreadableTraceError

TIME_NS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
POWERS: Final = {"B": 0, "KB": 1, "MB": 2, "GB": 3}
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
    start = next((place for place, line in enumerate(lines) if _header(line)), None)
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


def _header(line: str) -> bool:
    names = {name.strip() for name in next(csv.reader([line]), [])} if "," in line else set()
    return {"Start", "Duration"} <= names or names >= SUMMARY


def _fill(found: Printed, lines: Sequence[str], first: int, label: str) -> None:
    """Take the rows from line `first` (from 0). A row is one line: names hold no line feed."""
    width = len(found.columns)
    for number, line in enumerate(lines[first:], start=first + 1):
        fields = next(csv.reader([line]), [])
        if not fields or fields[0].startswith("=="):
            continue
        if not found.rows and not found.units and _is_units(fields):
            found.units = tuple(fields)
        elif _begins_row(found, fields) and (len(fields) < width or line.count('"') % 2):
            has = "an open quote" if line.count('"') % 2 else f"{len(fields)} fields where the header has {width}"
            message = f"{label}: line {number} has {has}: the text is cut or damaged there. {PRINT_AGAIN}"
            raise UnreadableTraceError(message)
        elif len(fields) < width:
            found.other_lines += 1
        else:
            found.rows.append(dict(zip(found.columns, _joined(fields, found.columns), strict=True)))


def _begins_row(found: Printed, fields: Sequence[str]) -> bool:
    """Whether the first fields are those of a row, and not of a line that another program printed."""
    if found.columns[0] == "Type":
        return fields[0] in KINDS_OF_ROWS
    return len(fields) > 1 and all(NUMBER.match(field) for field in fields[:2])


def _is_units(fields: Sequence[str]) -> bool:
    known = {*TIME_NS, *POWERS, "%", ""}
    return any(fields) and all(field.strip() in known or field.strip().endswith("/s") for field in fields)


def _joined(fields: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The fields of a row: surplus commas stand in the unquoted name."""
    surplus = len(fields) - len(columns)
    if not surplus:
        return list(fields)
    place = columns.index("Name")
    name = ",".join(fields[place : place + surplus + 1])
    return [*fields[:place], name, *fields[place + surplus + 1 :]]


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
