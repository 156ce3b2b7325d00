"""Cuts the text of `nsys stats` into reports: one clean file, or a console capture with several of them.

Inside a report, rows go to the CSV parser in large pieces; between reports, lines are read one by one. On the console
a line `Processing […/cuda_gpu_trace.py]... ` (2022 and later) or `Exporting […/gputrace.py …] to console...` (2020)
precedes each report and a blank line follows it.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import polars as pl

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import nested
from kerneldb.ingest.delimited import is_whole
from kerneldb.ingest.nsys import sniff
from kerneldb.ingest.source import Source, require_whole
from kerneldb.shell import command_line, valued

PIECE_BYTES: Final = 8 << 20
OBJECT_BYTES: Final = 1 << 16
ENDS: Final = re.compile(rb"\n(?=\n|Processing \[|Exporting \[|Using |Generating |SKIPPED)")
JSON_END: Final = re.compile(rb"\n\](?=\n|$)|\}\](?=\n|$)")
SKIPPED: Final = re.compile(r"SKIPPED: (.*)")
NOISE: Final = re.compile(r"^(?:Using |Generating |NOTICE|WARNING|\[\d+/\d+\]|\s*$)")
RANGE: Final = "NVTX Range"
NAMES: Final = frozenset({"Name", "Operation", "Kernel Name", RANGE, "Range", "NameTree"})
"""Columns that may hold any text; in the others, `None` is what nsys of 2021 and 2022 printed for NULL."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """One report of a file. `number` counts the reports of the file from 0; `arguments` are those of the report."""

    number: int
    report: str
    arguments: frozenset[str]
    columns: tuple[sniff.Column, ...]
    line: str

    @property
    def separator(self) -> str:
        """Between the fields of a row."""
        return "\t" if "\t" in self.line else ","


@dataclasses.dataclass(slots=True)
class Notes:
    """What stood between the reports: reports that nsys skipped, with its reason, and lines of other programs.

    `open_ends`: last rows without a line end. `recordings`: exports that were printed, in order.
    """

    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    other_lines: int = 0
    open_ends: int = 0
    recordings: dict[str, None] = dataclasses.field(default_factory=dict)


class Reader:
    """Reads a file as (report, rows as text), pieces of one report one after the other; empty reports give no rows.

    Columns of a piece have the names of `sniff.ALIASES`; empty fields are NULL. Raises NotATraceError for reports
    without header and for tables made for reading, UnreadableTraceError where the text is cut or is no table.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes = Notes()
        self.tables: list[Table] = []
        self._named = sniff.from_file_name(sniff.base_name(source.path))
        self._announced: tuple[str, frozenset[str]] | None = None
        self._table: Table | None = None
        self._buffer = bytearray()
        self._lines = 0
        self._first_line = 1

    def raw(self) -> Iterator[tuple[Table, bytes]]:
        """Each report with its rows as bytes, in pieces that end at the end of a row."""
        with contextlib.closing(self.source.blocks()) as blocks:
            for block in blocks:
                self._buffer += block.replace(b"\r", b"")
                yield from self._consume(final=False)
        require_whole(self.source)
        yield from self._consume(final=True)
        if self._announced is not None:
            message = f"{self.source.label}: the text ends before the report {self._announced[0]}, so it is cut. "
            raise UnreadableTraceError(message + print_again(self._announced[0]))

    def frames(self, wanted: frozenset[int]) -> Iterator[tuple[Table, pl.DataFrame]]:
        """The rows of the reports with these numbers, parsed."""
        for table, rows in self.raw():
            if table.number in wanted and rows.strip():
                yield table, self._parsed(table, rows)

    def _consume(self, *, final: bool) -> Iterator[tuple[Table, bytes]]:
        while True:
            if self._table is None:
                if not self._between(final=final):
                    return
                continue
            rows = self._rows(final=final)
            if rows is None:
                return
            yield rows

    def _between(self, *, final: bool) -> bool:
        """Take a line between reports; whether there was one."""
        end = self._buffer.find(b"\n")
        if end < 0 and not (final and self._buffer):
            return False
        end = len(self._buffer) if end < 0 else end
        line = bytes(self._buffer[:end]).decode("utf-8", errors="replace")
        if line.startswith("["):
            described = sniff.first_object(bytes(self._buffer[:OBJECT_BYTES]).decode("utf-8", errors="replace"))
            if described is not None:
                self._begin(*described, "[")
                return True
        del self._buffer[: end + 1]
        self._lines += 1
        self._line(line)
        return True

    def _line(self, line: str) -> None:
        announced = sniff.report_of(line)
        if announced is not None:
            self._announced = announced
            self.notes.recordings |= dict.fromkeys(filter(None, [sniff.recording_of(line)]))
        skipped = SKIPPED.search(line)
        if skipped is not None and self._announced is not None:
            self.notes.skipped[self._announced[0]] = skipped.group(1)
            self._announced = None
        if announced is not None or skipped is not None or NOISE.match(line):
            return
        found = sniff.header(line)
        if found is not None:
            self._begin(found[0], found[1], line)
            return
        self._refuse(line)
        self.notes.other_lines += 1

    def _begin(self, kind: str, described: list[sniff.Column], line: str) -> None:
        report, arguments = self._announced or self._named[1:]
        name = sniff.report_named(kind, report)
        unclear = ", ".join(one.printed for one in described if one.is_unclear)
        if unclear:
            message = f"{self.source.label}: the report {name} has columns in units that are not known ({unclear}). "
            raise NotATraceError(message + print_again(name))
        self._table = Table(len(self.tables), name, arguments, tuple(described), line)
        self.tables.append(self._table)
        self._announced = None

    def _refuse(self, line: str) -> None:
        """Raise where a line belongs to a report that cannot be read as it is."""
        if sniff.PASTED.search(line):
            report = self._announced[0] if self._announced else self._named[1] or "cuda_gpu_kern_sum"
            message = (
                f"{self.source.label}: a table made for reading, where names are cut and numbers follow the system's "
                f"language. {print_again(report)}"
            )
            raise NotATraceError(message)
        if self._announced is not None and line.count(",") + line.count("\t") > 1:
            message = (
                f"{self.source.label}: the report {self._announced[0]} has no header line, so its columns and units "
                f"are unknown. Print it again without `nohdr`."
            )
            raise NotATraceError(message)

    def _rows(self, *, final: bool) -> tuple[Table, bytes] | None:
        """The next piece of the report being read, None where more text is needed for one."""
        table = self._table
        if table is None:
            return None
        if table.line == "[":
            closing = JSON_END.search(self._buffer)
            if closing is None and final:
                raise self._cut(table)
            return None if closing is None else (table, self._take(closing.end(), over=True))
        end = ENDS.search(self._buffer) if not self._buffer.startswith(b"\n") else None
        empty = self._buffer.startswith((b"\n", b"Processing [", b"Exporting ["))
        if end is not None or empty:
            return table, self._take(end.start() + 1 if end is not None else 0, over=True)
        if final:
            last = self._buffer.rpartition(b"\n")[2].decode("utf-8", errors="replace")
            if last and not is_whole(last, len(table.columns), table.separator):
                raise self._cut(table)
            self.notes.open_ends += bool(last)
            return table, self._take(len(self._buffer), over=True)
        if len(self._buffer) < PIECE_BYTES:
            return None
        return table, self._take(self._whole_rows(), over=False)

    def _whole_rows(self) -> int:
        """Bytes up to the end of the last row: a line feed between quotes ends none."""
        end = self._buffer.rfind(b"\n") + 1
        while end and self._buffer.count(b'"', 0, end) % 2:
            end = self._buffer.rfind(b"\n", 0, end - 1) + 1
        return end

    def _take(self, size: int, *, over: bool) -> bytes:
        rows = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._first_line = self._lines + 1
        self._lines += rows.count(b"\n")
        if over:
            self._table = None
        return rows

    def _cut(self, table: Table) -> UnreadableTraceError:
        message = f"{self.source.label}: the text ends inside a row of the report {table.report}, so it is cut. "
        return UnreadableTraceError(message + print_again(table.report))

    def _parsed(self, table: Table, rows: bytes) -> pl.DataFrame:
        names = [one.name for one in table.columns]
        try:
            frame = _json(rows, table) if table.line == "[" else _csv(rows, table.separator, names)
        except (pl.exceptions.PolarsError, msgspec.DecodeError) as error:
            self._check_width(table, rows)
            reason = str(error).splitlines()[0]
            message = f"{self.source.label}: the report {table.report} holds a row that cannot be read ({reason}). "
            raise UnreadableTraceError(message + print_again(table.report)) from error
        if table.line != "[" and frame[names[-1]].null_count():  # the parser fills up what a short row lacks
            self._check_width(table, rows)
        values = [name for name in frame.columns if name not in NAMES]
        cleaned = frame.with_columns(pl.col(values).replace({"None": None, "": None}))
        if RANGE not in frame.columns:
            return cleaned
        return cleaned.with_columns(pl.when(pl.col("Style").is_not_null()).then(RANGE).alias(RANGE))

    def _check_width(self, table: Table, rows: bytes) -> None:
        """Raise where a row has more or fewer fields than the header."""
        odd = None if table.line == "[" else _odd_row(rows, table.separator, len(table.columns))
        if odd is None:
            return
        message = (
            f"{self.source.label}: line {self._first_line + odd[0]} has {odd[1]} where the report {table.report} has "
            f"{len(table.columns)}: the text is cut or damaged there. "
        )
        raise UnreadableTraceError(message + print_again(table.report))


class _Commas(csv.excel):
    """Strict: a quote that stays open is an error."""

    strict = True


class _Tabs(csv.excel_tab):
    """Quotes are plain characters."""

    quoting = csv.QUOTE_NONE


def _odd_row(rows: bytes, separator: str, width: int) -> tuple[int, str] | None:
    """Line, from 0, of the first row that has not `width` fields, and what it has instead."""
    text = io.StringIO(rows.decode("utf-8", errors="replace"), newline="")
    dialect: type[csv.Dialect] = _Commas if separator == "," else _Tabs
    reader, start = csv.reader(text, dialect), 0
    try:
        for fields in reader:
            if fields and len(fields) != width:
                return start, "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            start = reader.line_num
    except csv.Error:
        return start, "an open quote"
    return None


def _csv(rows: bytes, separator: str, names: list[str]) -> pl.DataFrame:
    return pl.read_csv(
        io.BytesIO(rows),
        has_header=False,
        new_columns=names,
        schema_overrides=[pl.String] * len(names),
        separator=separator,
        quote_char='"' if separator == "," else None,
        infer_schema=False,
    )


def _json(rows: bytes, table: Table) -> pl.DataFrame:
    try:
        objects = msgspec.json.decode(rows, type=list[dict[str, Any]])
    except RecursionError as error:
        raise nested.error(rows) from error
    found = {one.name: [_text(row.get(one.printed)) for row in objects] for one in table.columns}
    return pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def print_again(report: str) -> str:
    """What to do about a report that cannot be read: its name is from the file."""
    words = "nsys", "stats", "--format", "csv", "--output", ".", *valued("--report", report), "FILE.nsys-rep"
    return f"Print it again: `{command_line(words)}`."
