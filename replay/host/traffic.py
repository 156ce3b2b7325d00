"""Bytes of DRAM and L2 of kernels that are run alone, by a run of Nsight Compute of their own.

What takes several passes runs a kernel several times (kernel replay). Nsight Compute puts back what the kernel wrote
before each of them, and what of that goes to DRAM meanwhile counts as the kernel's: a product of matrices on an H200
that wrote 38 kB to DRAM in one pass had 1.5 MB in 18 (results/2026-11-29-h200-counters-2). So these bytes are read
first, in one pass, and written into the page of all else.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kerneldb.files import naming
from kerneldb.gpus.counting import ALWAYS, PER_PASS

READ, WRITTEN, BOTH = "dram__bytes_read.sum", "dram__bytes_write.sum", "dram__bytes.sum"
METRICS: Final = (BOTH, READ, WRITTEN, "lts__t_bytes.sum")
SUFFIX: Final = ".bytes"
"""What the name of their page ends with, before that of its kind."""
CALL: Final = re.compile(r"kerneldb ([^:]+)")
"""The name of the range around a call, in the cell of its ranges."""
SHAPES: Final = ("Kernel Name", "Grid Size", "Block Size")

Key = tuple[str, ...]


def parts(wanted: Sequence[str], *, kernel_replay: bool) -> list[list[str]]:
    """What is asked for in each run of the profiler: these bytes first where all together would take several passes.

    The sum of read and written bytes is then left out where both are asked for.
    """
    first = [name for name in wanted if name in METRICS]
    others = [name for name in wanted if name not in METRICS]
    metrics = len(first) + sum(name not in ALWAYS for name in others)
    several = metrics > PER_PASS or any("__" not in name and name not in ALWAYS for name in others)
    if not (kernel_replay and first and several):
        return [list(wanted)]
    return [[*(name for name in first if name != BOTH or not {READ, WRITTEN} <= set(first)), *ALWAYS], others]


@dataclass(frozen=True, slots=True)
class Page:
    """What Nsight Compute prints: lines of its own, then a table whose second line has the units."""

    before: str
    lines: list[list[str]]

    @classmethod
    def read(cls, path: Path) -> Page:
        """A page as it was written."""
        with naming(path):
            text = path.read_text("utf-8", "replace")
        begin = text.index('"ID"')
        return cls(text[:begin], list(csv.reader(io.StringIO(text[begin:]))))

    def launches(self) -> Iterator[tuple[Key, list[str]]]:
        """Its launches: call, name, grid and block, and which of several such it is."""
        header, seen = self.lines[0], Counter[Key]()
        places = [place for place, name in enumerate(header) if "Range" in name]
        shapes = [header.index(name) for name in SHAPES if name in header]
        for line in self.lines[2:]:
            called = CALL.search(" ".join(line[place] for place in places if place < len(line)))
            key = ("" if called is None else called[1], *(line[place] for place in shapes if place < len(line)))
            seen[key] += 1
            yield (*key, str(seen[key])), line

    def columns(self) -> dict[str, int]:
        """Where those of `METRICS` stand."""
        return {name: self.lines[0].index(name) for name in METRICS if name in self.lines[0]}


def join(page: Path, counted: Path) -> None:
    """Write the bytes of `counted` into `page`; a launch that is not in `counted` has none."""
    whole, found = Page.read(page), Page.read(counted)
    theirs = found.columns()
    bytes_of = {key: {name: line[place] for name, place in theirs.items()} for key, line in found.launches()}
    units = {name: found.lines[1][place] for name, place in theirs.items()}
    rows = [whole.lines[0], whole.lines[1], *(line for _, line in whole.launches())]
    values = [{name: name for name in theirs}, units, *(bytes_of.get(key, {}) for key, _ in whole.launches())]
    written = io.StringIO(whole.before)
    written.seek(0, io.SEEK_END)
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    own = whole.columns()
    writer.writerows(_with(row, cells, theirs, own) for row, cells in zip(rows, values, strict=True))
    with naming(page):
        page.write_text(written.getvalue(), encoding="utf-8")


def _with(row: Sequence[str], cells: Mapping[str, str], names: Mapping[str, int], own: Mapping[str, int]) -> list[str]:
    """A row with these cells in place of those of the same name, else behind its own."""
    kept = list(row)
    for name, place in own.items():
        if name in names and place < len(kept):
            kept[place] = cells.get(name, "")
    return [*kept, *(cells.get(name, "") for name in names if name not in own)]
