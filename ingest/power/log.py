"""A log of nvidia-smi as slices of rows of one layout, and what its columns mean; other lines are counted.

Names and units: `nvidia-smi --help-query-gpu` and the section "Device Monitoring" of nvidia-smi(1), drivers 361 to 580.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kerneldb.errors import NotATraceError
from kerneldb.gpus import clocks
from kerneldb.ingest import digits
from kerneldb.ingest.delimited import NO_END
from kerneldb.ingest.readers import Progress
from kerneldb.ingest.source import Source
from kerneldb.shell import command_line, file

if TYPE_CHECKING:
    from kerneldb.ingest.output import Report

TIME: Final = "timestamp"
DATE_COLUMN: Final = "Date"
TIME_COLUMN: Final = "Time"

IDENTITY: Final[dict[str, str]] = {
    **dict.fromkeys(("index", "gpu"), "index"),
    **dict.fromkeys(("uuid", "gpu_uuid"), "uuid"),
    **dict.fromkeys(("name", "gpu_name"), "name"),
    **dict.fromkeys(("pci.bus_id", "gpu_bus_id"), "bus_id"),
}
"""What tells GPUs apart: printed name → index, uuid, name or bus_id. `gpu` is dmon's."""

QUERY: Final[dict[str, tuple[str, ...]]] = {
    "power_w": ("power.draw.instant", "power.draw", "power.draw.average"),
    "energy_mj": ("total_energy_consumption",),
    "sm_mhz": ("clocks.current.sm", "clocks.sm"),
    "memory_mhz": ("clocks.current.memory", "clocks.mem", "clocks.current.mem"),
    "temperature_c": ("temperature.gpu",),
    "gpu_util_pct": ("utilization.gpu",),
    "memory_util_pct": ("utilization.memory",),
    "throttle": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
}
"""Column of `power_samples` → fields of --query-gpu, the best first."""

DMON: Final[dict[str, tuple[str, ...]]] = {
    "power_w": ("pwr",),
    "sm_mhz": ("pclk",),
    "memory_mhz": ("mclk",),
    "temperature_c": ("gtemp", "temp"),
    "gpu_util_pct": ("sm",),
    "memory_util_pct": ("mem",),
}
"""Column of `power_samples` → columns of dmon. Their units are in the second header line."""

DMON_COLUMNS: Final = frozenset(
    ("pwr", "gtemp", "mtemp", "temp", "sm", "mem", "enc", "dec", "jpg", "ofa", "mclk", "pclk", "fb", "bar1", "ccpm",
     "pviol", "tviol", "rxpci", "txpci", "sbecc", "dbecc", "pci")
)  # fmt: skip
"""Figures of which a header of dmon has at least one."""

KNOWN: Final = frozenset([TIME, *IDENTITY, *(name for names in QUERY.values() for name in names)])
QUERY_NAME: Final = re.compile(r"^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*(?: \[[^\]]+\])?$", re.IGNORECASE)
"""A field in the header of --query-gpu: `power.draw [W]`."""

UNITS: Final[dict[str, tuple[str, float]]] = {
    "W": ("W", 1.0),
    "mW": ("W", 1e-3),
    "J": ("mJ", 1e3),
    "mJ": ("mJ", 1.0),
    "MHz": ("MHz", 1.0),
    "%": ("%", 1.0),
    "C": ("°C", 1.0),
    "KiB": ("byte", 2.0**10),
    "MiB": ("byte", 2.0**20),
    "GiB": ("byte", 2.0**30),
}
"""Unit as printed → unit as stored, and the factor between them. Others stay as they are."""

NUMBER: Final = r"^\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)\s*$"
ABSENT: Final = r"^\s*(?:-|\[.*\]|N/A|Not Supported|)\s*$"
"""No value: `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `[GPU requires reset]`, and `-` of dmon."""

SINGLE_REASONS: Final = {
    "applications_clocks_setting": "applications clocks",
    "sw_power_cap": "software power cap",
    "hw_slowdown": "hardware slowdown",
    "sync_boost": "sync boost",
    "sw_thermal_slowdown": "software thermal slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "hardware power brake",
}
"""Reasons that are columns of their own, with the values Active and Not Active."""
HEAD_LINES: Final = 400
"""Lines among which a header, or rows that need none, must be."""

STAMP: Final = re.compile(r"^\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?$")
DMON_ROW: Final = re.compile(r"^\s*\d{8}[\s,]+\d{2}:\d{2}:\d{2}(?:[\s,]+(?:-|\d+(?:\.\d+)?)){3,}[\s,]*$")
DMON_FIRST: Final = frozenset(("gpu", DATE_COLUMN, TIME_COLUMN))
"""What a header of dmon begins with."""
WITH_UNIT: Final = re.compile(r"^-?\d+(?:\.\d+)? ?(W|MHz|%|MiB)$")
PLAIN: Final = re.compile(r"^-?\d+(?:\.\d+)?$")
TWO_DECIMALS: Final = re.compile(r"^\d+\.\d\d$")
UUID: Final = re.compile(r"^(?:GPU|MIG)-[0-9a-f-]{32,36}$", re.IGNORECASE)
BUS_ID: Final = re.compile(r"^[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d$", re.IGNORECASE)
FIGURES: Final = (WITH_UNIT, PLAIN, UUID)
SCREEN: Final = re.compile(r"\| NVIDIA-SMI \d|={8}NVSMI LOG={8}|<!DOCTYPE nvidia_smi_log")
SCREEN_LINES: Final = 10
"""The screen of nvidia-smi begins a file; further down, it is part of what another program or a person wrote."""
INDEX_LIKE: Final = 32
SLICE_ROWS: Final = 65_536
QUERY_HEADER: Final = "timestamp, index, power.draw [W]"
DMON_HEADER: Final = "#Date Time gpu pwr gtemp mtemp sm mem enc dec jpg ofa mclk pclk"
NO_HEADER: Final = (
    "a log without header line (`noheader`), and its cells do not show what the columns are. Put the header above it, "
    "for example: "
)
NO_DMON_HEADER: Final = "rows of `nvidia-smi dmon` without header line. Put the header above it, for example: "
LOG_AGAIN: Final = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,power.draw,clocks.sm --format=csv -lms 100 -f power.csv"
)
OF_PROCESSES: Final = f"a log of processes, not of GPUs: it has no power. Log with: {LOG_AGAIN}"
SCREENSHOT: Final = f"what `nvidia-smi` shows on screen, not a log. Log with: {LOG_AGAIN}"


def reasons(mask: str) -> str | None:
    """The reasons in a mask such as 0x0000000000000024, joined by "; "; '' for none, None where there is no mask."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    return "; ".join(clocks.reasons(bits))


def single_reason(field: str) -> str | None:
    """The reason that a column such as `clocks_event_reasons.sw_power_cap` is about."""
    group, _, name = field.partition(".")
    return SINGLE_REASONS.get(name) if group in ("clocks_event_reasons", "clocks_throttle_reasons") else None


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column as printed: its field, and the unit that the header says for all its cells."""

    field: str
    unit: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The columns of the rows behind a header line. `style` is query or dmon; `separator` None means white space."""

    style: str
    columns: tuple[Column, ...]
    separator: str | None = ","

    @property
    def names(self) -> tuple[str, ...]:
        """The fields, in the order of the columns."""
        return tuple(column.field for column in self.columns)

    def cells(self, line: str) -> list[str] | None:
        """The cells of a row; None where the line is not a row of this layout."""
        found = [cell.strip() for cell in line.split(self.separator)]
        return found if len(found) == len(self.columns) and self._has_time(found) else None

    def _has_time(self, cells: Sequence[str]) -> bool:
        """Whether the cells of time and GPU number look like it: text that a program wrote in between does not."""
        named = dict(zip(self.names, cells, strict=True))
        stamp, clock = named.get(TIME), named.get(TIME_COLUMN)
        number = named.get("gpu" if self.style == "dmon" else "index", "0")
        timed = (stamp is None or STAMP.match(stamp)) and (clock is None or re.match(r"^\d\d:\d\d:\d\d$", clock))
        return bool(timed) and PLAIN.match(number) is not None

    def with_units(self, line: str) -> Layout | None:
        """This layout with the units of dmon's second header line (`#Idx W C …`); None where the line is not that."""
        units = _dmon_cells(line, self.separator)
        if self.style != "dmon" or len(units) != len(self.columns) or "Idx" not in units:
            return None
        named = [dataclasses.replace(one, unit=unit) for one, unit in zip(self.columns, units, strict=True)]
        return dataclasses.replace(self, columns=tuple(named))


def header(line: str) -> Layout | None:
    """The layout that a header line announces, or None where the line is not one."""
    if line.lstrip().startswith("#"):
        separator = "," if "," in line else None
        named = _dmon_cells(line, separator)
        figures = [cell for cell in named if cell not in DMON_FIRST]
        like_dmon = sum(cell in DMON_COLUMNS for cell in figures) * 2 >= max(len(figures), 1)
        is_dmon = "gpu" in named and named[0] in DMON_FIRST and like_dmon
        return Layout("dmon", tuple(Column(cell) for cell in named), separator) if is_dmon else None
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 2 or not all(QUERY_NAME.match(cell) for cell in cells):  # noqa: PLR2004 (a single word is text)
        return None
    columns = []
    for cell in cells:
        name, _, unit = cell.partition(" [")
        columns.append(Column(name.lower(), unit.rstrip("]") or None))
    known = [column.field for column in columns if column.field in KNOWN]
    beside_time = any("." in one.field or one.unit or one.field in KNOWN for one in columns if one.field != TIME)
    is_query = beside_time and any("." in name or name == TIME for name in known)
    return Layout("query", tuple(columns)) if is_query else None


def _dmon_cells(line: str, separator: str | None) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("#").strip().split(separator)]


def guessed(rows: Sequence[str]) -> Layout | None:
    """The layout of rows without any header, where it follows from the cells; else None.

    It must be plain which column is the time and which the power: cells in W, or the only cells with two decimals (as
    nvidia-smi prints power, and nothing else but power limits). Columns of unknown meaning are called `column N`; none
    of them may be able to number GPUs.
    """
    split = [[cell.strip() for cell in row.split(",")] for row in rows]
    if not split or len({len(cells) for cells in split}) != 1:
        return None
    columns = [_guess(number, cells) for number, cells in enumerate(zip(*split, strict=True), 1)]
    names = [column.field for column in columns]
    watts = [column for column in columns if column.unit == "W"]
    powers = watts or [column for column in columns if column.unit == "?W"]
    if names.count(TIME) != 1 or len(powers) != 1 or _may_number(columns, split):
        return None
    plain = [Column(one.field, None if one.unit == "?W" else one.unit) for one in columns]
    plain[columns.index(powers[0])] = Column("power.draw", "W")
    return Layout("query", tuple(plain))


def _guess(number: int, cells: tuple[str, ...]) -> Column:
    for name, pattern in ((TIME, STAMP), ("uuid", UUID), ("pci.bus_id", BUS_ID)):
        if all(pattern.match(cell) for cell in cells):
            return Column(name)
    units = {found[1] if (found := WITH_UNIT.match(cell)) else None for cell in cells if not _absent(cell)}
    if len(units) == 1 and None not in units:
        return Column(f"column {number}", units.pop())
    two_decimals = all(TWO_DECIMALS.match(cell) or _absent(cell) for cell in cells)
    return Column(f"column {number}", "?W" if two_decimals else None)


def _absent(cell: str) -> bool:
    return re.match(ABSENT, cell) is not None


def _may_number(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column that nothing names may hold GPU numbers: several small whole numbers, and no other identity."""
    if any(column.field in IDENTITY for column in columns):
        return False
    for place, column in enumerate(columns):
        values = {row[place] for row in rows}
        if column.unit is None and len(values) > 1 and all(map(_is_small, values)):
            return True
    return False


def _is_small(cell: str) -> bool:
    number = digits.whole(cell)
    return number is not None and 0 <= number < INDEX_LIKE


def is_bare_row(line: str) -> bool:
    """Whether the line is a row of --query-gpu with a time stamp and figures, whatever they mean."""
    cells = [cell.strip() for cell in line.split(",")]
    figures = [cell for cell in cells if any(pattern.match(cell) for pattern in FIGURES)]
    return any(STAMP.match(cell) for cell in cells) and bool(figures)


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with `head` is from nvidia-smi: a log, or its screen, which is not a log."""
    if b"\x00" in head[:4096]:
        return False
    lines = head.decode("utf-8", errors="replace").splitlines()[:HEAD_LINES]
    known = (header(line) is not None or is_bare_row(line) or DMON_ROW.match(line) is not None for line in lines)
    return is_screen(lines) or any(known)


def is_screen(lines: Sequence[str]) -> bool:
    """Whether these first lines are the screen of nvidia-smi."""
    return any(SCREEN.search(line) for line in lines[:SCREEN_LINES])


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Rows of cells, all with the columns of `layout`."""

    layout: Layout
    rows: list[list[str]]


def slices(one: Source, report: Report, progress: Progress | None) -> Iterator[Slice]:
    """The rows of the log in the order of the file, at most SLICE_ROWS at once.

    Raises NotATraceError where the file has rows, and no line says what their columns are.
    """
    lines = _lines(one, report, progress)
    head = list(itertools.islice(lines, HEAD_LINES))
    layout = None if any(header(line) for line in head) else _without_header(one, head)
    rows: list[list[str]] = []
    for line in itertools.chain(head, lines):
        named = header(line) or (layout.with_units(line) if layout else None)
        if named is not None and "pid" in named.names:
            message = f"{one.label}: {OF_PROCESSES}"
            raise NotATraceError(message)
        if named is not None:
            # A repeated first header of dmon does not take the units away.
            again = layout is not None and layout.names == named.names and any(one.unit for one in layout.columns)
            if layout is not None and rows and not again and named != layout:
                yield Slice(layout, rows)
                rows = []
            layout = layout if again else named
            report.add("read", "header lines", 1)
        elif layout is not None and (cells := layout.cells(line)) is not None:
            rows.append(cells)
        elif line.strip():
            report.add("skipped", "lines that are not rows of the log", 1, line.strip()[:200])
        if layout is not None and len(rows) >= SLICE_ROWS:
            yield Slice(layout, rows)
            rows = []
    if layout is not None and rows:
        yield Slice(layout, rows)


def _without_header(one: Source, head: list[str]) -> Layout:
    rows = [line for line in head if is_bare_row(line)]
    found = guessed(rows)
    if found is not None:
        return found
    if is_screen(head):
        raise NotATraceError(f"{one.label}: {SCREENSHOT}")
    problem, above = (NO_HEADER, QUERY_HEADER) if rows else (NO_DMON_HEADER, DMON_HEADER)
    remedy = command_line(["sed", "-i", f"1i {above}", file(one.path)])
    raise NotATraceError(f"{one.label}: {problem}{remedy}")


def _lines(one: Source, report: Report, progress: Progress | None) -> Iterator[str]:
    """The lines of the file. A last line without an end is left out where it may lack digits."""
    rest, previous = b"", b""
    with contextlib.closing(one.blocks()) as blocks:
        for block in blocks:
            *whole, rest = (rest + block).splitlines(keepends=True) or [b""]
            if rest.endswith((b"\n", b"\r")):
                whole, rest = [*whole, rest], b""
            yield from (line.decode("utf-8", errors="replace").rstrip("\r\n\x00") for line in whole)
            previous = whole[-1] if whole else previous
            if progress is not None:
                progress(one.read_bytes, one.stored_bytes)
    if rest.strip() and _ends_alike(rest, previous):
        report.add("note", NO_END, 1)
        yield rest.decode("utf-8", errors="replace")
    elif rest.strip():
        report.add("truncated", "the last line has no end", 1, rest.decode("utf-8", errors="replace")[:200])
    if one.damage:
        report.add("truncated", one.damage, 1)


def _ends_alike(row: bytes, before: bytes) -> bool:
    """Whether the last cell of a row has the unit or the decimals of the row before: then it lacks nothing."""
    (of_row, last), (of_before, other) = (
        (line.count(b","), line.rpartition(b",")[2].strip()) for line in (row, before)
    )
    forms = [re.sub(rb"\d", b"0", re.sub(rb"^-?\d+", b"0", cell)) for cell in (last, other)]
    return of_row == of_before > 0 and forms[0] == forms[1] != b"0"
