"""What a report is made of: sections with tables and charts, and behind each the query that it comes from."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name in the query, its title, and how values are written.

    `kind`: text, code (names of kernels), count, ns and rate (written with a fitting unit or prefix), percent, number.
    """

    name: str
    title: str
    kind: Literal["text", "code", "count", "ns", "percent", "number", "rate"] = "text"
    over: str = ""
    """Why a percentage may be over 100; such values are kept and marked, with this as a note below the table."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A Vega-Lite chart under a caption, with its data inside."""

    caption: str
    spec: dict[str, Any]
    sql: str


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """What a named, versioned rule says: the sentence, the time at stake in ns where there is one, and what to do.

    `command` are the words of the kerneldb command that shows more.
    """

    rule: str
    version: int
    sentence: str
    remedy: str
    at_stake_ns: float | None
    sql: str
    command: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. `text` are sentences before its blocks."""

    title: str
    blocks: tuple[Table | Chart, ...] = ()
    advice: tuple[Advice, ...] = ()
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A title, when and from what it was made, and the sections in order."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
