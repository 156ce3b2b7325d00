"""Reads what an SQL file says of the object that it makes.

A file holds one object. A comment comes first: a sentence that says what the object answers, then paragraphs of notes,
and for what users ask the sections `Arguments:`, `Columns:` and `Example:`:

    -- Where the time of each device went.
    --
    -- Arguments:
    --   longest_ns: [ns] Gaps over this are left out.
    -- Columns:
    --   trace, device: as in kernels
    --   busy_ns BIGINT [ns]: Time in which something ran.
    -- Example:
    --   SELECT trace, busy_ns FROM gpu_time();
    CREATE OR REPLACE MACRO gpu_time(source := 'kernels') AS TABLE

Tables say what a column holds behind it: `start_ns BIGINT,  -- [ns] Start.` Names that begin with `_` are internal.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MADE: Final = re.compile(r"^CREATE (?:OR REPLACE )?(TABLE|VIEW|MACRO) (\w+)(?:\((.*?)\) AS TABLE$)?", re.MULTILINE)
SECTIONS: Final = ("Arguments:", "Columns:", "Example:")
UNIT: Final = r"(?:\[([^\]]+)\] )?"
TABLE_COLUMN: Final = re.compile(rf"^    (\w+) ([A-Z]\w*(?:\(.+?\))?(?:\[\])?)( NOT NULL)?,?  -- {UNIT}(.+)$")
COLUMN: Final = re.compile(r"(\w+) ([A-Z][^\[:]*(?:\[\])?)(?: \[([^\]]+)\])?: (.+)")
SHARED: Final = re.compile(r"(.+): as in (\w+)(?:, without (.+))?")
REMEDY: Final = "Name an object of docs/schema.md that has it, or say what it is: `name TYPE [unit]: meaning`."
ARGUMENT: Final = re.compile(rf"(\w+): {UNIT}(.+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column: what it holds, its unit (None: text, a flag, a count, an id) and its DuckDB type.

    `needed`: whether every row of its table has a value.
    """

    name: str
    type: str
    unit: str | None
    meaning: str
    needed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """Columns that mean what they mean in another object; no `names`: all of that one, but those left out."""

    names: tuple[str, ...]
    object: str
    without: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a macro; `default` is SQL, None where the argument has to be given."""

    name: str
    default: str | None
    unit: str | None
    meaning: str


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """An object as its file describes it; `kind` is table, view or macro."""

    name: str
    subject: str
    kind: str
    meaning: str
    notes: tuple[str, ...]
    arguments: tuple[Argument, ...]
    columns: tuple[Column | Shared, ...]
    example: str | None
    sql: str

    @property
    def is_internal(self) -> bool:
        """Whether it only serves other objects."""
        return self.name.startswith("_")


def read(text: str, subject: str) -> Header:
    """The object that the text of a file makes. Raises ValueError where it does not read as above."""
    found = MADE.search(text)
    if found is None:
        message = f"makes no table, view or macro: {text[:80]!r}"
        raise ValueError(message)
    kind, name, parameters = found.group(1).lower(), found.group(2), found.group(3)
    meaning, notes, sections = _comment(text[: found.start()])
    if not meaning:
        message = f"{file_of(subject, name)}: a comment above it must say what it is"
        raise ValueError(message)
    columns = (
        _of_table(text[found.end() :]) if kind == "table" else _of_query(file_of(subject, name), sections["Columns:"])
    )
    arguments = _arguments(parameters or "", _entries(sections["Arguments:"]))
    example = "\n".join(line.removeprefix("  ") for line in sections["Example:"]) or None
    return Header(name, subject, kind, meaning, notes, tuple(arguments), tuple(columns), example, text)


def file_of(subject: str, name: str) -> str:
    """Where an object is made."""
    return f"schemas/{subject}/{name}.sql"


def _comment(text: str) -> tuple[str, tuple[str, ...], dict[str, list[str]]]:
    """The first paragraph, the others, and the lines of the sections, without the marks of a comment."""
    paragraphs: list[str] = [""]
    sections: dict[str, list[str]] = {name: [] for name in SECTIONS}
    section = None
    for line in text.splitlines():
        body = line.removeprefix("--").removeprefix(" ").rstrip()
        if body in SECTIONS:
            section = body
        elif section is not None:
            sections[section] += [body] if body else []
        elif not body:
            paragraphs.append("")
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {body}".lstrip()
    found = [paragraph for paragraph in paragraphs if paragraph]
    return (found[0] if found else ""), tuple(found[1:]), sections


def _entries(lines: list[str]) -> Iterator[str]:
    """The entries of a section; what is indented further goes on with the one before."""
    entry = ""
    for line in lines:
        if line.startswith("    "):
            entry = f"{entry} {line.strip()}"
            continue
        if entry:
            yield entry
        entry = line.strip()
    if entry:
        yield entry


def _of_query(file: str, lines: list[str]) -> Iterator[Column | Shared]:
    for entry in _entries(lines):
        if shared := SHARED.fullmatch(entry):
            names, other, without = shared.groups()
            yield Shared(() if names == "*" else _names(names), other, _names(without or ""))
        elif column := COLUMN.fullmatch(entry):
            kept, kind, unit, meaning = column.groups()
            yield Column(kept, kind, unit, meaning)
        else:
            message = f"{file}: not a column: {entry!r}. Write `name TYPE [unit]: meaning` or `name: as in OBJECT`."
            raise ValueError(message)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _of_table(body: str) -> Iterator[Column]:
    """The columns of the body of CREATE TABLE; a line of comment alone goes on with the column before."""
    column = None
    for line in body.splitlines()[1:]:
        if line.startswith(")"):
            break
        if found := TABLE_COLUMN.match(line):
            if column is not None:
                yield column
            name, kind, needed, unit, meaning = found.groups()
            column = Column(name, kind, unit, meaning, needed is not None)
        elif column is not None:
            more = line.strip().removeprefix("--").strip()
            column = dataclasses.replace(column, meaning=f"{column.meaning} {more}")
    if column is not None:
        yield column


def _arguments(parameters: str, entries: Iterator[str]) -> Iterator[Argument]:
    known = {
        name: (unit, meaning)
        for entry in entries
        if (found := ARGUMENT.fullmatch(entry))
        for name, unit, meaning in [found.groups()]
    }
    for parameter in filter(None, re.split(r",\s*", parameters)):
        name, _, default = parameter.partition(" := ")
        unit, meaning = known.get(name, (None, ""))
        yield Argument(name, default or None, unit, meaning)


def columns_of(headers: Mapping[str, Header], name: str) -> tuple[Column, ...]:
    """The columns of an object with those that it shares with others. Raises ValueError for one that is nowhere."""
    return tuple(_column_of(headers, headers[name], column) for column in _names_of(headers, headers[name]))


def _names_of(headers: Mapping[str, Header], header: Header) -> Iterator[str]:
    for entry in header.columns:
        if isinstance(entry, Column):
            yield entry.name
        elif entry.names:
            yield from entry.names
        else:
            other = _other(headers, header, entry)
            yield from (one for one in _names_of(headers, other) if one not in entry.without)


def _column_of(headers: Mapping[str, Header], header: Header, column: str) -> Column:
    for entry in header.columns:
        if isinstance(entry, Column):
            if entry.name == column:
                return entry
        elif column in entry.names or not (entry.names or column in entry.without):
            return _column_of(headers, _other(headers, header, entry, column), column)
    raise AssertionError(column)


def _other(headers: Mapping[str, Header], header: Header, shared: Shared, column: str | None = None) -> Header:
    other = headers.get(shared.object)
    if other is not None and (column is None or column in _names_of(headers, other)):
        return other
    lacks = f"has no column {column}" if other is not None else "is no table, view or macro"
    written = f"{file_of(header.subject, header.name)}: `{column or '*'}: as in {shared.object}`"
    message = f"{written}, but {shared.object} {lacks}. {REMEDY}"
    raise ValueError(message)
