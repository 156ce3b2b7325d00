"""Texts that nvprof printed as CSV, of all its generations.

The header is followed by a row of units, one per column (`s,ms,,…,B,KB,MB,GB/s,…`); the summary of 2016 glues units to
the values instead (`542.36ms`). Names with commas are quoted, but not in 2016. Lines that begin with `==` are remarks.
A text may hold several tables, such as a summary of kernels, one of calls and one of unified memory.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import digits
from kerneldb.ingest.delimited import cells, fields

TIME_NS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
POWERS: Final = {"B": 0, "KB": 1, "MB": 2, "GB": 3}
UNITS: Final = frozenset({*TIME_NS, *POWERS, "%", ""})
BINARY: Final = 1024
DECIMAL: Final = 1000
NUMBER: Final = re.compile(r"\s*(-?\d+(?:\.(\d+))?(?:[eE]([+-]?\d{1,2}))?)\s*([A-Za-z%/]*)\s*$")
BARE: Final = re.compile(r"\s*-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?\s*$")
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
CALL: Final = re.compile(r"cu(?:da)?[A-Z]\w*")
TITLE: Final = re.compile(r"==\d*=* *(.*):\s*$")


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A printed value in base units (ns or bytes), and the last digit that was printed."""

    value: float
    step: float


@dataclasses.dataclass(slots=True)
class Printed:
    """The tables of a text that list GPU work: columns, and rows whose numbers carry their unit (`2.048ms`).

    `others` counts the rows of other tables by their titles, `other_lines` the lines of other programs. `ends` says
    whether the last line has an end.
    """

    columns: tuple[str, ...]
    rows: list[dict[str, str]] = dataclasses.field(default_factory=list)
    others: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    other_lines: int = 0
    ends: bool = True

    @property
    def is_trace(self) -> bool:
        """Whether rows are single activities, and not sums."""
        return set(self.columns) >= TRACE


def read(text: str, label: str) -> Printed:
    """The tables of a text that have the columns of its first one.

    Raises NotATraceError for tables made for reading, for tables of other kinds and for those without rows,
    UnreadableTraceError where the text is cut or damaged.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    start = next((place for place, line in enumerate(lines) if "," in line and _is_header(fields(line))), None)
    if start is None and any(READING.match(line) for line in lines):
        message = f"{label}: a table of nvprof made for reading, where names are cut. {PRINT_AGAIN}"
        raise NotATraceError(message)
    if start is None and any({"Kernel", "Invocations"} <= set(fields(line)) for line in lines if "," in line):
        message = f"{label}: counters of nvprof, which have no times and are not read. {RECORD}"
        raise NotATraceError(message)
    if start is None:
        _refuse_returns(lines, label)
        message = f"{label}: a text of nvprof without a table: nothing was recorded. {RECORD}"
        raise NotATraceError(message)
    found = Printed(tuple(name.strip() for name in fields(lines[start])), ends=not lines[-1].strip())
    if not (found.is_trace or set(found.columns) >= SUMMARY):
        message = f"{label}: a table of nvprof without GPU work ({', '.join(found.columns[:4])}, …). {PRINT_AGAIN}"
        raise NotATraceError(message)
    found.other_lines = sum(1 for line in lines[:start] if line.strip() and not line.startswith("=="))
    _Rows(found, label).take(lines, start + 1)
    if not found.rows:
        message = f"{label}: the table of nvprof holds no rows: nothing was recorded. {RECORD}"
        raise NotATraceError(message)
    return found


def _refuse_returns(lines: Sequence[str], label: str) -> None:
    """Raise where a carriage return in a line hides a header."""
    for number, line in enumerate(lines, 1):
        if "\r" in line and ("Start" in line or "Time(%)" in line):
            cells(line, f"{label}: line {number}")


def _is_header(names: Sequence[str]) -> bool:
    """Whether these are the columns of a table of activities."""
    plain = {name.strip() for name in names}
    return {"Start", "Duration"} <= plain or plain >= SUMMARY


class _Rows:
    """Sorts the lines below a header. A row is one line: names hold no line feed."""

    def __init__(self, found: Printed, label: str) -> None:
        self._found = found
        self._label = label
        self._name = found.columns.index("Name")
        figures = ("Start", "Duration") if found.is_trace else ("Time(%)", "Time")
        self._figures = [found.columns.index(name) for name in figures]
        self._units: tuple[str, ...] = ()
        self._fresh = True
        self._title = ""
        self._other = ""

    def take(self, lines: Sequence[str], first: int) -> None:
        """Take the lines from `first` (from 0). Raises UnreadableTraceError for a row that is cut."""
        for number, line in enumerate(lines[first:], start=first + 1):
            if line.startswith("=="):
                titled = TITLE.match(line)
                self._title = titled[1] if titled else self._title
            elif line.strip():
                self._line(cells(line, f"{self._label}: line {number}"), line, number)

    def _line(self, row: list[str], line: str, number: int) -> None:
        width = len(self._found.columns)
        if len(row) > 2 and "Name" in row and not any(map(BARE.match, row)):  # noqa: PLR2004 (a table has more)
            same = tuple(name.strip() for name in row) == self._found.columns
            self._other, self._units, self._fresh = "" if same else self._title or ", ".join(row), (), True
        elif self._fresh and any(row) and self._are_units(row, number):
            self._units, self._fresh = tuple(row), False
        elif self._other:
            self._found.others[self._other] += 1
        elif not self._begins_row(row):
            self._found.other_lines += 1
        elif len(row) < width or line.count('"') % 2 or (len(row) > width and '"' in line):
            has = "an open quote" if line.count('"') % 2 else f"{len(row)} fields where the header has {width}"
            message = f"{self._label}: line {number} has {has}: the text is cut or damaged there. {PRINT_AGAIN}"
            raise UnreadableTraceError(message)
        else:
            self._add(row)

    def _are_units(self, row: Sequence[str], number: int) -> bool:
        """Whether this is the row of units. Raises UnreadableTraceError where they are not known."""
        unknown = [field for field in row if field.strip() not in UNITS and not field.strip().endswith("/s")]
        if unknown and not self._other and len(row) == len(self._found.columns) and not any(map(NUMBER.match, row)):
            message = f"{self._label}: line {number} has units that are not known ({', '.join(unknown)}). {PRINT_AGAIN}"
            raise UnreadableTraceError(message)
        return not unknown

    def _add(self, row: list[str]) -> None:
        """Keep a row, its numbers with their units; surplus commas are in the unquoted name."""
        columns, self._fresh = self._found.columns, False
        end = self._name + len(row) - len(columns) + 1
        values = [*row[: self._name], ",".join(row[self._name : end]), *row[end:]]
        units = (*self._units, *[""] * len(columns))
        self._found.rows.append(
            {
                name: value + unit if unit and BARE.match(value) else value
                for name, value, unit in zip(columns, values, units, strict=False)
            }
        )

    def _begins_row(self, row: Sequence[str]) -> bool:
        """Whether the first figures are those of a row; lines of other programs have none. Events may last no time."""
        if self._found.columns[0] == "Type" and row[0] in KINDS_OF_ROWS:
            return True
        first, second = (row[at] if at < len(row) else "?" for at in self._figures)
        return NUMBER.match(first) is not None and (not second or NUMBER.match(second) is not None)


def time(text: str) -> Number | None:
    """A printed time in ns."""
    return _number(text, TIME_NS)


def size(text: str, base: int) -> Number | None:
    """A printed size in bytes, with `base` bytes to the KB."""
    return _number(text, {name: float(base**power) for name, power in POWERS.items()})


def _number(text: str, scales: Mapping[str, float]) -> Number | None:
    match = NUMBER.match(text)
    if match is None:
        return None
    value, scale = float(match.group(1)), scales.get(match.group(4))
    if (scale is None and (value or match.group(4))) or not math.isfinite(value * (scale or 1.0)):
        return None
    scale = scale or 1.0
    return Number(value * scale, scale * 10.0 ** (int(match.group(3) or 0) - len(match.group(2) or "")))


def kilobyte(found: Printed) -> int:
    """Bytes in a KB of this file: 1024 since CUDA 8, 1000 before; sizes are whole bytes with the right one."""
    for column in ("Static SMem", "Dynamic SMem", "Size"):
        for text in (row[column] for row in found.rows if column in found.columns):
            binary = size(text, BINARY)
            if binary is not None and binary.step < 1 and abs(binary.value - round(binary.value)) > binary.step:
                return DECIMAL
    return BINARY


def name_of(text: str) -> tuple[str, int | None]:
    """The name of an activity, and the correlation id that nvprof puts behind it in brackets."""
    match = CORRELATED.match(text)
    return (text, None) if match is None else (match.group(1), digits.whole(match.group(2)))


def device_of(text: str) -> tuple[str | None, int | None]:
    """Name and number of a device printed as `TITAN Xp (0)`."""
    match = DEVICE.match(text)
    return (text or None, None) if match is None else (match.group(1), digits.whole(match.group(2)))


def activity(row: Mapping[str, str]) -> str:
    """What a row is: `kernel`, `memcpy`, `memset`, `call`, or the name of another activity or table in its own words.

    Before the column Type came, a second table listed calls of the API. Kernels have a grid wherever grids are listed.
    """
    name = name_of(row["Name"])[0]
    if row.get("Type", GPU) != GPU:
        return row["Type"]
    if name.startswith("["):
        words = name.lower()
        return next((kind for kind in ("memcpy", "memset") if kind in words), name)
    if row.get("Grid X"):
        return "kernel"
    if CALL.fullmatch(name) and "Type" not in row:
        return "API calls"
    return "without a grid" if "Grid X" in row else "kernel"


def of_gpu(found: Printed) -> Iterator[Mapping[str, str]]:
    """The rows of what a GPU ran."""
    return (row for row in found.rows if activity(row) in {"kernel", "memcpy", "memset"})
