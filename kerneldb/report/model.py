"""What a report is made of: sections with tables and charts, each with its query; and cells as people read them."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Final, Literal

from kerneldb.output import units
from kerneldb.output.text import escape


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name in the query, its title, and how values are written.

    `kind`: text, code (names of kernels), shapes (of inputs, as JSON), count, ns, bytes and rate (written with a
    fitting unit or prefix), percent, number.
    """

    name: str
    title: str
    kind: Literal["text", "code", "shapes", "count", "ns", "bytes", "percent", "number", "rate"] = "text"
    over: str = ""
    """Why a percentage may be over 100; such values are kept and marked, with this as a note below the table."""
    words: tuple[tuple[str, str], ...] = ()
    """Values that need an explanation, each with one: a note below a table that has them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption. `missing` says why there are none."""

    caption: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    sql: str
    missing: str = "Nothing of this kind in the trace."


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A table to make: the statement `report_<query>.sql`, and how to show its rows. Captions may name parameters."""

    query: str
    caption: str
    columns: tuple[Column, ...]
    missing: str = "Nothing of this kind in the trace."
    is_sparse: bool = False
    """Whether columns that no row fills are left out."""
    asked: str = ""
    """The statement with the same rows that is asked instead: it reads those of others, which have been asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite chart under a caption, with its data inside.

    `events` are those of a timeline, packed (see `events`): a page draws these instead, where the browser can.
    """

    caption: str
    spec: dict[str, Any]
    sql: str
    events: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """What a named, versioned rule says: the sentence, the time at stake in ns where there is one, and what to do.

    `command` are the words of the kerneldb command that shows more; `evidence` says how sure it is, and why.
    `row` are the figures.
    """

    rule: str
    version: int
    sentence: str
    remedy: str
    at_stake_ns: float | None
    sql: str
    command: tuple[str, ...] = ()
    evidence: str = ""
    row: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. `text` are sentences before its blocks.

    One that is answered late belongs `before` another one, which the page shows already: a title.
    """

    title: str
    blocks: tuple[Table | Chart, ...] = ()
    advice: tuple[Advice, ...] = ()
    text: str = ""
    before: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A title, when and from what it was made, and the sections in order."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]


MARK: Final = " *"
WRITERS: Final = {
    "count": units.count, "ns": units.duration, "bytes": units.size, "percent": units.percent, "rate": units.amount,
}  # fmt: skip


def shown(column: Column, value: Any) -> str:
    """`value` of a column as text on one line."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return units.UNKNOWN
    if not is_number(column):
        return escape(shapes(value) if column.kind == "shapes" else str(value))
    if is_over(column, value):
        return f"{value:,.1f} %{MARK}"
    sign = "+" if value > 0 and units.is_change(column.name) else ""
    return sign + (f"{value:,.4g}" if column.kind == "number" else WRITERS[column.kind](float(value)))


def shapes(dims: str) -> str:
    """Shapes of the inputs of a call (JSON), without those of scalars, which have none."""
    try:
        found = json.loads(dims)
    except ValueError:
        return dims
    kept = [one for one in found if one != []] if isinstance(found, list) else [found]
    return ", ".join(map(json.dumps, kept)) or "scalars"


def is_over(column: Column, value: Any) -> bool:
    """Whether a value is larger than it should be able to be, as it is printed."""
    return bool(column.over) and value is not None and round(value, 1) > 100  # noqa: PLR2004 (percent)


def notes(table: Table) -> list[str]:
    """What stands below a table: why marked values are over 100 %, and what words in it mean."""
    marked = [
        column.over for column in table.columns if any(is_over(column, row.get(column.name)) for row in table.rows)
    ]
    explained = [
        f"{word}: {meaning}"
        for column in table.columns
        for word, meaning in column.words
        if any(row.get(column.name) == word for row in table.rows)
    ]
    return [f"* over 100 %: {reason}" for reason in dict.fromkeys(marked)] + explained


def is_number(column: Column) -> bool:
    """Whether the column stands on the right."""
    return column.kind == "number" or column.kind in WRITERS
