"""The source page of ncu (`--page source --csv`): counters of single instructions and source lines.

A table per profiled kernel. With `--print-source sass` (the default) a line `"Kernel Name","…"` precedes the columns
`Address,Source,…` (`#,Address,Source,…` in later versions). With `cuda,sass` two lines `"File Path","…"` and
`"Function Name","…"` precede `Line No,Source,Address,Source,…`: a row of a source line has the sums over the
instructions that follow it. Pages of one view have one column Source. No page prints units or numbers of launches.
Format: pages and parsers that users of ncu 2022 to 2025 published.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kerneldb.batch import Manifest
from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.columns import frame_of, schema
from kerneldb.ingest.delimited import cells
from kerneldb.ingest.digits import whole
from kerneldb.ingest.ncu.numbers import Evidence, Style
from kerneldb.ingest.ncu.table import Log, lines
from kerneldb.ingest.output import File, Output, Report
from kerneldb.ingest.readers import Options, Progress, Unit
from kerneldb.ingest.source import Source, require_whole

SCHEMA: Final = schema("launch_index kernel_index kernel level file line instruction address text metric value")
NAMES: Final = frozenset({"Kernel Name", "Function Name"})
ABSENT: Final = frozenset({"", "-"})
PLACES: Final = frozenset({"#", "Line No", "Address", "Source"})
COUNTS: Final = re.compile(r"# Samples|(?:Thread |Predicated-On Thread )?Instructions Executed|stall_|Warp Stall")
HEX: Final = re.compile(r"0[xX][0-9a-fA-F]+")
AGAIN: Final = re.compile(r" \(\d+\)$")
FEW: Final = 2
SLICE_ROWS: Final = 200_000
MOST_ADDRESS: Final = (1 << 63) - 1
PRINT_AGAIN: Final = "Print it again: `ncu --import REPORT.ncu-rep --page source --csv > FILE`."


@dataclasses.dataclass(slots=True)
class Columns:
    """Where the columns of a table are: of places (line, address, texts), and of counters by name."""

    line: int | None
    number: int | None
    address: int | None
    texts: tuple[int, ...]
    counters: dict[int, str]
    width: int

    @classmethod
    def of(cls, names: Sequence[str]) -> Columns | None:
        """None where these are no columns of a source page. A counter that is printed twice gets a number."""
        if "Source" not in names or names[0] not in PLACES:
            return None
        at = {name: names.index(name) for name in PLACES & set(names)}
        counters: dict[int, str] = {}
        for place, name in enumerate(names):
            if name and name not in PLACES:
                again = sum(other == name for other in names[:place])
                counters[place] = f"{name} ({again + 1})" if again else name
        texts = tuple(place for place, name in enumerate(names) if name == "Source")
        return cls(at.get("Line No"), at.get("#"), at.get("Address"), texts, counters, len(names))

    def cell(self, row: Sequence[str], place: int | None) -> str | None:
        """A cell that says something."""
        return None if place is None or row[place].strip() in ABSENT else row[place].strip()


@dataclasses.dataclass(slots=True)
class Place:
    """Where the reader is: the kernel, its file and line, the number of the next instruction."""

    kernel: str | None = None
    kernel_index: int = -1
    file: str | None = None
    seen: set[tuple[str | None, str]] = dataclasses.field(default_factory=set)
    line: int | None = None
    instruction: int = 0
    columns: Columns | None = None

    def enter(self, kernel: str) -> None:
        """Begin the table of a kernel; another file of the same kernel goes on with it."""
        if kernel != self.kernel or (self.file, kernel) in self.seen:
            self.kernel_index, self.instruction, self.seen = self.kernel_index + 1, 0, set()
        self.kernel, self.line, self.columns = kernel, None, None
        self.seen.add((self.file, kernel))


def convert(unit: Unit, folder: Path, options: Options, progress: Progress | None = None) -> Manifest:
    """The spool of a source page. Raises UnreadableTraceError where it is cut, or where numbers have two readings."""
    one = Source(unit.files[0])
    report, log, evidence = Report(), Log(), Evidence()
    for place, row in rows(one, log):
        for at, name in place.columns.counters.items() if place.columns else ():
            evidence.see(row[at], whole=COUNTS.match(name) is not None)
    try:
        style = evidence.style()
    except ValueError as error:
        message = f"{one.label}: {error}. Print the page again with `LC_ALL=C ncu --import …`."
        raise UnreadableTraceError(message) from error
    output = Output(folder)
    read = Source(one.path)
    found = _store(read, output, style, report)
    if not found.rows:
        without = "counters, as that of PTX" if log.lines else "a row"
        message = f"{one.label}: a source page without {without}. {PRINT_AGAIN}"
        raise UnreadableTraceError(message)
    if progress is not None:
        progress(read.read_bytes, unit.stored_bytes)
    log.add_to(report)
    return output.finish(
        options,
        one.stem.removesuffix(".csv"),
        [File(read, "source", found.rows, report)],
        kind="profiled",
        era="ncu csv source",
        source="ncu",
        tool="Nsight Compute",
        reader_version=1,
        metadata="{}",
    )


@dataclasses.dataclass(slots=True)
class _Found:
    rows: int = 0
    words: int = 0


def _store(one: Source, output: Output, style: Style, report: Report) -> _Found:
    found, waiting, kernels = _Found(), list[tuple[Any, ...]](), 0
    for place, row in rows(one, Log()):
        found.rows, kernels = found.rows + 1, place.kernel_index + 1
        waiting += _counters(place, row, style, found)
        if len(waiting) >= SLICE_ROWS:
            output.write("source_counters", frame_of(waiting, SCHEMA))
            waiting.clear()
    output.write("source_counters", frame_of(waiting, SCHEMA))
    report.add("read", "rows of instructions and source lines", found.rows)
    report.add("stored", "counters of instructions and source lines", output.written["source_counters"])
    report.add("read", "kernels of a source page", kernels)
    report.add("unread", "words about an instruction (address space, access size)", found.words)
    return found


def rows(one: Source, log: Log) -> Iterator[tuple[Place, list[str]]]:
    """Rows of all kernels with where they are; other lines go to `log`. Raises UnreadableTraceError for a cut row."""
    place = Place()
    with contextlib.closing(one.blocks()) as blocks:
        for number, line in enumerate(lines(blocks), 1):
            if not line.startswith('"'):
                log.see(line)
                continue
            row = cells(line, f"{one.label}: line {number}")
            if len([cell for cell in row if cell]) <= FEW and row[0] == "File Path":
                place.file = row[1] or None
            elif len(row) <= FEW + 1 and row[0] in NAMES:
                place.enter(row[1])
            elif (named := Columns.of(row)) is not None:
                place.columns = named
            elif place.columns is None or place.kernel is None:
                log.see(line)
            elif line.count('"') % 2 or len(row) < place.columns.width:
                message = f"{one.label}: line {number} is cut. {PRINT_AGAIN}"
                raise UnreadableTraceError(message)
            else:
                yield place, row
    require_whole(one)


def _counters(place: Place, row: list[str], style: Style, found: _Found) -> Iterator[tuple[Any, ...]]:
    columns = place.columns
    if columns is None:
        return
    about, before = _about(place, columns, row), dict[str, float]()
    for at, metric in columns.counters.items():
        number = style.read(row[at].strip())
        if number is None:
            found.words += row[at].strip() not in ABSENT
        elif before.setdefault(AGAIN.sub("", metric), number[0]) != number[0] or not AGAIN.search(metric):
            yield (*about, metric, number[0])


def _about(place: Place, columns: Columns, row: list[str]) -> tuple[Any, ...]:
    """What a row is about. A source line holds for the instructions below it."""
    address, line = columns.cell(row, columns.address), columns.cell(row, columns.line)
    if line is None and address is None:
        line = columns.cell(row, columns.number)  # of one view: the number of the line
    head = (None, place.kernel_index, place.kernel)
    if line is not None:
        place.line = whole(line)
        return (*head, "source", place.file, place.line, None, None, row[columns.texts[0]].rstrip())
    where = int(address, 16) if address and HEX.fullmatch(address) else None
    instruction, place.instruction = place.instruction, place.instruction + 1
    text = row[columns.texts[-1]].strip()
    kept = where if where is not None and where <= MOST_ADDRESS else None
    return (*head, "sass", place.file, place.line, instruction, kept, text)
