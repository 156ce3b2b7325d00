"""What ncu and the application wrote beside the table: errors, warnings, passes per kernel, and plain lines."""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Final

from kerneldb.errors import UnreadableTraceError
from kerneldb.gpus import counting
from kerneldb.ingest.delimited import cells
from kerneldb.ingest.digits import whole
from kerneldb.ingest.output import Report

MESSAGE: Final = re.compile(r"==(ERROR|WARNING|PROF)==\s*(.*)")
PROFILED: Final = re.compile(r'Profiling ".*?"(?: - (?P<index>\d+)(?: \(\d+/\d+\))?)?:.*?(?P<passes>\d+) pass')
SECTION: Final = re.compile(r"\s+Section: \w|\s*Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum)")
PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\\/][^\s'\")]*[\\/][^\s'\")]+")
KEPT: Final = 20
HEADER: Final = re.compile(
    r'"?(?:ID"?,"?(?:Process ID|Kernel Name)|Process ID"?,"?(?:Process Name|Host Name|Kernel Name)|Domain"?,"?Range:)'
)
MOVED: Final = re.compile(r"^(?=.*\bKernel Name\b)(?=.*\bID\b).*(?:\bMetric Value\b|\b[a-z]\w{,99}__\w{1,99}\.\w)")
"""The same columns in another order, or behind others."""
OTHER_TABLE: Final = re.compile(r'"[A-Za-z][^"]*","')
"""The header of what `--print-details all` prints among the rows: tables of GPUs, links and processors."""
RECORD: Final = re.compile(r'"\d*","')
PLAIN: Final = re.compile(r"\d*,")
NAMED: Final = re.compile(r'"[^"]*","')
INSIDE: Final = re.compile(r'"\d+","\d+","')
NAMES: Final = {
    "name": "Kernel Name", "metric": "Metric Name", "unit": "Metric Unit", "value": "Metric Value", "average": "Average"
}  # fmt: skip
CUT: Final = (
    "Copy the file again, or print it again: `ncu --import REPORT.ncu-rep --page {page} --csv > FILE` "
    "(without a report: profile again with `ncu --csv --log-file FILE`)."
)


@dataclasses.dataclass(slots=True)
class Log:
    """Messages by kind, number of passes by launch id, and counts of other lines."""

    messages: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    passes: dict[str, int | None] = dataclasses.field(default_factory=dict)
    lines: int = 0
    console: bool = False

    def see(self, line: str) -> None:
        """Take a line outside of tables into account."""
        found = MESSAGE.search(line)
        if found is not None:
            kind, text = found[1], found[2].strip()
            profiled = PROFILED.match(text) if kind == "PROF" else None
            if profiled is not None and profiled["index"] is not None:
                # Two sessions in one log number their launches alike: then nothing is known.
                index, passes = profiled["index"], whole(profiled["passes"])
                self.passes[index] = passes if self.passes.get(index, passes) == passes else None
            kept = self.messages.setdefault(kind, [])
            if kind != "PROF" and len(kept) < KEPT:
                kept.append(PATH.sub("…", text))
        elif line.strip():
            self.lines += 1
            self.console = self.console or SECTION.match(line) is not None

    @property
    def complaint(self) -> str:
        """Errors and warnings in one line, with what to do about the first known one; '' where there are none."""
        said = [f"=={kind}== {text}" for kind in ("ERROR", "WARNING") for text in self.messages.get(kind, [])]
        return counting.advised(said)

    def add_to(self, report: Report) -> None:
        """Add what was seen to the ingest report."""
        report.add("skipped", "lines of the application", self.lines)
        for kind in ("ERROR", "WARNING"):
            for text in self.messages.get(kind, []):
                report.add("note", f"=={kind}==", 1, text)


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table. `page` is raw, details or summary; `quoted` says whether the columns are in quotes."""

    columns: tuple[str, ...]
    page: str
    quoted: bool = True

    @classmethod
    def of(cls, columns: Iterable[str]) -> Header | None:
        """None where these are no columns of ncu."""
        names = tuple(columns)
        if NAMES["name"] not in names:
            return None
        if NAMES["metric"] not in names:
            return cls(names, "raw") if "ID" in names else None
        if NAMES["value"] in names:
            return cls(names, "details") if "ID" in names else None
        return cls(names, "summary") if NAMES["average"] in names else None

    def at(self, name: str) -> int | None:
        """Position of a column."""
        return self.columns.index(name) if name in self.columns else None

    @property
    def begins(self) -> re.Pattern[str]:
        """What the first line of a record begins with."""
        if self.columns[0] == "Domain":
            return NAMED
        return RECORD if self.quoted else PLAIN

    @property
    def least(self) -> int:
        """Fields that a record has at least: rows without a rule end after the value."""
        last = {"details": NAMES["value"], "summary": NAMES["average"]}.get(self.page)
        return len(self.columns) if last is None else self.columns.index(last) + 1


Row = tuple[Header, list[str]]


def lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Lines of a text in blocks, without their ends."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for block in blocks:
        *whole, rest = (rest + decoder.decode(block)).split("\n")
        yield from (line.rstrip("\r") for line in whole)
    if rest:
        yield rest


def rows(texts: Iterable[str], log: Log, label: str) -> Iterator[Row]:
    """Records of all tables, each with its header. Other lines go to `log`.

    Raises UnreadableTraceError where a record is cut.
    """
    header: Header | None = None
    inner = 0
    stream = _Pushed(iter(texts))
    for line in stream:
        found = _header(line, f"{label}: line {stream.number}")
        inner = 0 if header is None or found is not None else _inner(line, inner, header)
        if found is not None:
            header = found
        elif header is None or inner:
            log.see(line)
        else:
            record = _record(line, stream, log, header.begins)
            if record is None:
                continue
            fields = cells(record, f"{label}: line {stream.number}")
            if not header.quoted and not header.least <= len(fields) <= len(header.columns) + 1:
                log.see(line)
                continue
            yield header, _checked(record, fields, header, stream.number, label)


def _inner(line: str, before: int, header: Header) -> int:
    """The columns of a table inside the page that a line belongs to, such as that of NUMA affinity; else 0."""
    columns = line.count('","') + 1
    begins = header.begins is RECORD and columns < header.least and OTHER_TABLE.match(line)
    return columns if begins or columns == before else 0


class _Pushed:
    """Lines, of which one can be given back; counts them."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._texts = texts
        self._back: list[str] = []
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._back.pop() if self._back else next(self._texts)
        self.number += 1
        return line

    def push(self, line: str) -> None:
        self._back.append(line)
        self.number -= 1


def _header(line: str, place: str) -> Header | None:
    text = line.removeprefix("\ufeff")
    is_moved = "Kernel Name" in text and MOVED.match(text) is not None
    if is_moved and "\t" in text:
        message = f"{place} is the header of a table of ncu with tabs between the fields. {CUT.format(page='raw')}"
        raise UnreadableTraceError(message)
    found = Header.of(cells(text, place)) if is_moved or HEADER.match(text) else None
    if found is None:
        return None
    if not HEADER.match(text):
        message = f"{place} is the header of a table of ncu that a program changed: it begins with {found.columns[0]!r}"
        raise UnreadableTraceError(f"{message}, where ncu prints 'ID'. {CUT.format(page=found.page)}")
    if found.page != "raw" and NAMES["unit"] not in found.columns:
        message = f"{place} names no column {NAMES['unit']}. {CUT.format(page='details')}"
        raise UnreadableTraceError(message)
    return dataclasses.replace(found, quoted=text.startswith('"'))


def _record(line: str, stream: _Pushed, log: Log, begins: re.Pattern[str]) -> str | None:
    """The text of the record that begins in `line`, with the lines that its quotes span; None where none does."""
    if not begins.match(line):
        inside = INSIDE.search(line)
        log.see(line[: inside.start()] if inside else line)
        if inside is None:
            return None
        line = line[inside.start() :]
    while line.count('"') % 2:
        following = next(stream, None)
        if following is None or INSIDE.match(following) or following.startswith("=="):
            if following is not None:
                stream.push(following)
            break
        line += "\n" + following
    return line


def _checked(record: str, fields: list[str], header: Header, number: int, label: str) -> list[str]:
    cut = record.count('"') % 2 or len(fields) < header.least
    if cut or len(fields) > len(header.columns) + 1:
        what = "is cut" if cut else f"has {len(fields)} fields under {len(header.columns)} columns"
        message = f"{label}: line {number} {what}. {CUT.format(page='raw' if header.page == 'raw' else 'details')}"
        raise UnreadableTraceError(message)
    return fields
