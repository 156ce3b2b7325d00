"""Kernels of a page: the identity that its first columns tell, and what is printed about each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kerneldb.ingest.ncu import nvtx
from kerneldb.ingest.ncu.numbers import Evidence
from kerneldb.ingest.ncu.table import Header, Row

IDENTITY: Final = frozenset(
    {
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Invocations",
        "Domain",
    }
)
ITEM: Final = "Body Item Label"
Key = tuple[str, str]


class Printed(NamedTuple):
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
    printed: list[Printed] = dataclasses.field(default_factory=list)
    rules: list[Rule] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> Key:
        """Process and launch, as ncu numbers them."""
        return self.identity.get("Process ID", ""), self.identity.get("ID", "")


@functools.cache
def is_identity(column: str) -> bool:
    """Whether a column tells the launch and not a metric."""
    return column in IDENTITY or nvtx.PUSH_POP in column or nvtx.START_STOP in column or column.startswith("Range:")


def kernels(rows: Iterable[Row]) -> Iterator[Kernel]:
    """Kernels of raw and details pages, in the order of the rows."""
    units: dict[int, list[str]] = {}
    current: Kernel | None = None
    for header, fields in rows:
        if header.page == "raw":
            if fields[header.columns.index("ID")] or id(header) in units:
                yield _wide(header, units.get(id(header), []), fields)
            else:
                units[id(header)] = fields
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


def _wide(header: Header, units: list[str], fields: list[str]) -> Kernel:
    kernel = Kernel(_identity(header, fields), header.page)
    units = units or [""] * len(header.columns)
    kernel.printed = [
        Printed(name, None, None, unit, text)
        for name, unit, text in zip(header.columns, units, fields, strict=False)
        if text and not is_identity(name)
    ]
    return kernel


def _long(kernel: Kernel, header: Header, fields: list[str]) -> None:
    row = dict(zip(header.columns, fields, strict=False))
    if row["Metric Name"]:
        item = row.get(ITEM) or None
        kernel.printed.append(
            Printed(row["Metric Name"], row.get("Section Name"), item, row["Metric Unit"], row["Metric Value"])
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


def look(evidence: Evidence, row: Row) -> None:
    """Take the numbers of a record into account."""
    for text in numbers_of(*row):
        evidence.see(text)
