"""What the lines of a log are: header lines, rows, and text in between that is neither."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from kerneldb.ingest.power import fields

HEAD_LINES: Final = 400
"""Lines in which a header, or rows that speak for themselves, must come up."""

STAMP: Final = re.compile(r"^\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?$")
DMON_ROW: Final = re.compile(r"^\s*\d{8}[\s,]+\d{2}:\d{2}:\d{2}[\s,]")
WITH_UNIT: Final = re.compile(r"^-?\d+(?:\.\d+)? ?(W|MHz|%|MiB)$")
PLAIN: Final = re.compile(r"^-?\d+(?:\.\d+)?$")
TWO_DECIMALS: Final = re.compile(r"^\d+\.\d\d$")
UUID: Final = re.compile(r"^(?:GPU|MIG)-[0-9a-f-]{32,36}$", re.IGNORECASE)
BUS_ID: Final = re.compile(r"^[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d$", re.IGNORECASE)
SCREEN: Final = re.compile(rb"\| NVIDIA-SMI \d|={8,}NVSMI LOG={8,}")
INDEX_LIKE: Final = 32


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
        """The cells of a row; None where the line is no row of this layout."""
        found = [cell.strip() for cell in line.split(self.separator)]
        return found if len(found) == len(self.columns) and self._has_time(found) else None

    def _has_time(self, cells: Sequence[str]) -> bool:
        """Whether the cells of time and GPU number look like it: text that a program wrote in between does not."""
        named = dict(zip(self.names, cells, strict=True))
        stamp, clock = named.get(fields.TIME), named.get(fields.TIME_COLUMN)
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
    """The layout that a header line announces, or None where the line is none."""
    return _dmon_header(line) if line.lstrip().startswith("#") else _query_header(line)


def _query_header(line: str) -> Layout | None:
    cells = [cell.strip() for cell in line.split(",")]
    if not all(fields.QUERY_NAME.match(cell) for cell in cells):
        return None
    columns = tuple(_column(cell) for cell in cells)
    known = [column.field for column in columns if column.field in fields.KNOWN]
    telling = any("." in name or name == fields.TIME for name in known)
    return Layout("query", columns) if telling and len(cells) > 1 else None


def _column(cell: str) -> Column:
    name, _, unit = cell.partition(" [")
    return Column(name.lower(), unit.rstrip("]") or None)


def _dmon_cells(line: str, separator: str | None) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("#").strip().split(separator)]


def _dmon_header(line: str) -> Layout | None:
    separator = "," if "," in line else None
    cells = _dmon_cells(line, separator)
    if "gpu" not in cells or not fields.DMON_COLUMNS.intersection(cells):
        return None
    return Layout("dmon", tuple(Column(cell) for cell in cells), separator)


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
    if names.count(fields.TIME) != 1 or len(powers) != 1 or _may_number(columns, split):
        return None
    return Layout("query", tuple(_named(column, powers[0]) for column in columns))


def _guess(number: int, cells: tuple[str, ...]) -> Column:
    for name, pattern in ((fields.TIME, STAMP), ("uuid", UUID), ("pci.bus_id", BUS_ID)):
        if all(pattern.match(cell) for cell in cells):
            return Column(name)
    units = {found[1] if (found := WITH_UNIT.match(cell)) else None for cell in cells if not _absent(cell)}
    if len(units) == 1 and None not in units:
        return Column(f"column {number}", units.pop())
    two_decimals = all(TWO_DECIMALS.match(cell) or _absent(cell) for cell in cells)
    return Column(f"column {number}", "?W" if two_decimals else None)


def _named(column: Column, power: Column) -> Column:
    if column is power:
        return Column("power.draw", "W")
    return Column(column.field, None if column.unit == "?W" else column.unit)


def _absent(cell: str) -> bool:
    return re.match(fields.ABSENT, cell) is not None


def _may_number(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column that nothing names may hold GPU numbers: several small whole numbers, and no other identity."""
    if any(column.field in fields.IDENTITY for column in columns):
        return False
    for place, column in enumerate(columns):
        values = {row[place] for row in rows}
        if column.unit is None and len(values) > 1 and all(v.isdecimal() and int(v) < INDEX_LIKE for v in values):
            return True
    return False


def is_bare_row(line: str) -> bool:
    """Whether the line is a row of --query-gpu with a time stamp and figures, whatever they mean."""
    cells = [cell.strip() for cell in line.split(",")]
    figures = [cell for cell in cells if WITH_UNIT.match(cell) or PLAIN.match(cell) or UUID.match(cell)]
    return any(STAMP.match(cell) for cell in cells) and bool(figures)


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with `head` is from nvidia-smi: a log, or its screen, which is no log."""
    if b"\x00" in head[:4096]:
        return False
    lines = head.decode("utf-8", errors="replace").splitlines()[:HEAD_LINES]
    return SCREEN.search(head) is not None or any(map(_tells, lines))


def _tells(line: str) -> bool:
    return header(line) is not None or is_bare_row(line) or DMON_ROW.match(line) is not None
