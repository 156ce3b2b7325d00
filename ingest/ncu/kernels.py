"""Kernels of a page: the launch that its first columns identify, its NVTX ranges, and the metrics printed of it.

NVTX ranges are in two columns, one of push/pop stacks, one of start/stop ranges. A stack reads
`97844  "<default domain>:outer:none:none:none:none:none:none"  "domain:inner:…"`, outermost first; a start/stop range
begins with its id (ncu 2022 to 2026). Fields after the name: payload type and value, colour type and value, message
type and message.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kerneldb.ingest.ncu.table import Header, Row

PUSH_POP: Final = "Push/Pop_Range"
START_STOP: Final = "Start/Stop_Range"
QUOTED: Final = re.compile(r'"([^"]*)"')
PLAIN: Final = re.compile(r"^(?P<domain>[^:]*):(?P<name>.*):none:none:none:none:none:none$", re.DOTALL)
FULL: Final = re.compile(
    r"^(?P<domain>[^:]*):(?P<name>.*?)"
    r":(?:none|\w*(?:int|float|double|json)\w*):[^:]*:\w+:[^:]*:(?:none|ascii|unicode|registered)\w*:.*$",
    re.DOTALL | re.IGNORECASE,
)
STEP: Final = "ProfilerStep"
IDENTITY: Final = frozenset(
    (
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"),
        *("Block Size", "Grid Size", "Device", "CC", "Invocations", "Domain"),
    )
)
Key = tuple[str, str]


def stack(cell: str) -> list[str]:
    """Names of the ranges in a cell of the push/pop column, outermost first."""
    return [name for text in QUOTED.findall(cell) if (name := _name(text))]


def started(cell: str) -> list[str]:
    """Names of the ranges in a cell of the start/stop column."""
    texts = QUOTED.findall(cell) or ([cell] if cell.strip() else [])
    return [name for text in texts if (name := _name(re.sub(r"^\s*\d+:", "", text)))]


def summary_ranges(cell: str) -> list[str]:
    """Names of the ranges in the column Range of `--print-summary per-nvtx`, which prints no domains."""
    return [text.rsplit(":", 6)[0] for text in QUOTED.findall(cell)]


def phase_of(path: list[str]) -> str | None:
    """The outermost range below the step of a profiler, as for timelines."""
    return next((name for name in path if not name.startswith(STEP)), None)


def _name(text: str) -> str | None:
    found = PLAIN.match(text) or FULL.match(text)
    return found["name"] if found else None


class PrintedMetric(NamedTuple):
    """A metric as printed. `item` is the label inside the section (`--print-details all`)."""

    name: str
    section: str | None
    item: str | None
    unit: str
    text: str


class Rule(NamedTuple):
    """The result of a rule: kind OPT, INF or WRN; an estimated speedup is local (of the kernel's part) or global."""

    name: str
    section: str
    kind: str
    text: str
    speedup_kind: str
    speedup: str


@dataclasses.dataclass(slots=True)
class Kernel:
    """One launch (of a summary: one kernel). `identity` holds the cells of the first columns by their names."""

    identity: dict[str, str]
    page: str
    printed: list[PrintedMetric] = dataclasses.field(default_factory=list)
    rules: list[Rule] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> Key:
        """Process and launch, as ncu numbers them."""
        return self.identity.get("Process ID", ""), self.identity.get("ID", "")


@functools.cache
def is_identity(column: str) -> bool:
    """Whether a column identifies the launch and is not a metric."""
    return column in IDENTITY or PUSH_POP in column or START_STOP in column or column.startswith("Range:")


def kernels(rows: Iterable[Row]) -> Iterator[Kernel]:
    """Kernels of raw and details pages, in the order of the rows."""
    units: dict[int, list[str]] = {}
    current: Kernel | None = None
    for header, fields in rows:
        if header.page == "raw":
            if not fields[header.columns.index("ID")] and id(header) not in units:
                units[id(header)] = fields
                continue
            of_columns = units.get(id(header)) or [""] * len(header.columns)
            cells = zip(header.columns, of_columns, fields, strict=False)
            kernel = Kernel(_identity(header, fields), header.page)
            kernel.printed = [
                PrintedMetric(name, None, None, unit, text)
                for name, unit, text in cells
                if text and not is_identity(name)
            ]
            yield kernel
            continue
        identity = _identity(header, fields)
        if current is None or current.identity != identity:
            if current is not None:
                yield current
            current = Kernel(identity, header.page)
        _long(current, header, fields)
    if current is not None:
        yield current


def _identity(header: Header, fields: list[str]) -> dict[str, str]:
    return {name: text for name, text in zip(header.columns, fields, strict=False) if is_identity(name)}


def _long(kernel: Kernel, header: Header, fields: list[str]) -> None:
    row = dict(zip(header.columns, fields, strict=False))
    if row["Metric Name"]:
        item = row.get("Body Item Label") or None
        kernel.printed.append(
            PrintedMetric(row["Metric Name"], row.get("Section Name"), item, row["Metric Unit"], row["Metric Value"])
        )
    elif row.get("Rule Name"):
        names = ("Rule Name", "Section Name", "Rule Type", "Rule Description")
        rule = [row.get(name) or "" for name in (*names, "Estimated Speedup Type", "Estimated Speedup")]
        kernel.rules.append(Rule(*rule))


def what_of(header: Header, fields: list[str]) -> str:
    """What a record is, for the ingest report."""
    if header.page == "raw":
        return "rows of launches" if fields[header.columns.index("ID")] else "rows of units"
    return "rows of metrics" if fields[header.columns.index("Metric Name")] else "rows of rules"


def numbers_of(header: Header, fields: list[str]) -> Iterator[str]:
    """The cells of a record that may hold numbers in the locale of the file."""
    if header.page == "raw":
        cells = [text for name, text in zip(header.columns, fields, strict=False) if not is_identity(name)]
    else:
        wanted = ("Metric Value", "Minimum", "Maximum", "Average", "Estimated Speedup")
        row = dict(zip(header.columns, fields, strict=False))
        cells = [row[name] for name in wanted if row.get(name)]
    for cell in cells:
        value, parenthesis, _ = cell.partition(" (")
        yield value if parenthesis else cell


@dataclasses.dataclass(slots=True)
class Completeness:
    """The metrics of each section that all launches but the last one have at least."""

    least: dict[str, int] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    launches: int = 0

    def see(self, kernel: Kernel) -> None:
        """Take the next launch of the page into account; other pages have a launch per line."""
        if kernel.page != "details":
            return
        if self.launches:
            known = self.least if self.launches > 1 else self.last
            self.least = {name: min(known[name], self.last[name]) for name in known.keys() & self.last.keys()}
        self.last = dict(collections.Counter(one.section or "" for one in kernel.printed))
        self.launches += 1

    @property
    def missing(self) -> int:
        """Metrics that all other launches have and the last one has not; 0 where that is not known."""
        return sum(max(least - self.last.get(name, 0), 0) for name, least in self.least.items())
