"""A log as slices of rows of one layout, with everything else counted."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Final

from kerneldb.errors import NotATraceError
from kerneldb.ingest.options import Progress
from kerneldb.ingest.power.layout import HEAD_LINES, SCREEN, Layout, guessed, header, is_bare_row
from kerneldb.ingest.report import Report
from kerneldb.ingest.source import Source

SLICE_ROWS: Final = 65_536
NO_HEADER: Final = (
    "a log without header line (`noheader`), and its cells do not tell the columns. Put the header above it, "
    "for example: sed -i '1i timestamp, index, power.draw [W]' {path}"
)
NO_DMON_HEADER: Final = (
    "rows of `nvidia-smi dmon` without header line. Put the header above it, "
    "for example: sed -i '1i #Date Time gpu pwr gtemp mtemp sm mem enc dec jpg ofa mclk pclk' {path}"
)
SCREENSHOT: Final = (
    "what `nvidia-smi` shows on screen, not a log. Log with: "
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,power.draw,clocks.sm --format=csv -lms 100 -f power.csv"
)


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
        if named is not None:
            settled = _settled(layout, named)
            if layout is not None and rows and settled != layout:
                yield Slice(layout, rows)
                rows = []
            layout = settled
            report.add("read", "header lines", 1)
        elif layout is not None and (cells := layout.cells(line)) is not None:
            rows.append(cells)
        elif line.strip():
            report.add("skipped", "lines that are no rows of the log", 1, line.strip()[:200])
        if layout is not None and len(rows) >= SLICE_ROWS:
            yield Slice(layout, rows)
            rows = []
    if layout is not None and rows:
        yield Slice(layout, rows)


def _settled(before: Layout | None, named: Layout) -> Layout:
    """The layout behind a header line: a repeated first header of dmon does not take the units away."""
    same = before is not None and before.names == named.names
    return before if before is not None and same and any(one.unit for one in before.columns) else named


def _without_header(one: Source, head: list[str]) -> Layout:
    rows = [line for line in head if is_bare_row(line)]
    found = guessed(rows)
    if found is not None:
        return found
    screen = SCREEN.search("\n".join(head).encode()) is not None
    problem = SCREENSHOT if screen else NO_HEADER if rows else NO_DMON_HEADER
    message = f"{one.label}: {problem.format(path=one.path)}"
    raise NotATraceError(message)


def _lines(one: Source, report: Report, progress: Progress | None) -> Iterator[str]:
    """The lines of the file. A last line without an end may lack digits, and is left out."""
    rest = b""
    with contextlib.closing(one.blocks()) as blocks:
        for block in blocks:
            *whole, rest = (rest + block).splitlines(keepends=True) or [b""]
            if rest.endswith((b"\n", b"\r")):
                whole, rest = [*whole, rest], b""
            yield from (line.decode("utf-8", errors="replace").rstrip("\r\n\x00") for line in whole)
            if progress is not None:
                progress(one.read_bytes, one.stored_bytes)
    if rest.strip():
        report.add("truncated", "the last line has no end", 1, rest.decode("utf-8", errors="replace")[:200])
    if one.damage:
        report.add("truncated", one.damage, 1)
