"""Reads the SQL files of this package. A few lines, so that the SQL stays SQL."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import importlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.schemas.headers import Argument, Header

HERE: Final = Path(__file__).parent
BLOCK: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
COMMENT: Final = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)
SUBJECTS: Final = (
    "core", "time", "work", "names", "collectives", "compare", "counters", "energy", "replay", "lake",
)  # fmt: skip
"""The folders of tables, views and macros, a file each; in the order in which they are documented."""
DERIVED: Final = ("reconciliation", "reconciliation_components", "reconciliation_kernels", "reconciliation_jobs")
"""Tables that are made of others, and made anew with the views."""
COMMIT_MACROS: Final = (
    "_launch_steps", "_step_launches", "_kernel_order", "_repeat_streaks", "_kernel_periods", "_period_launches",
    "collective_launches", "_base_names", "_names_agree", "_printed_digits", "_first_matches",
)  # fmt: skip
"""Macros that adding a trace takes, each after those that it takes itself."""
DOC_COLUMNS: Final = ("object", "kind", "column_name", "type", "unit", "meaning", "subject", "example", "notes")
TABLE: Final = b"\nCREATE TABLE "


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A step from the version before to `version`: SQL that runs in one transaction with all other steps due."""

    version: int
    name: str
    sql: str


@dataclasses.dataclass(frozen=True, slots=True)
class Doc:
    """The meaning of an object (`column_name` is None) or of one of its columns.

    `kind` is table, view or macro; of what only serves these, internal view or internal macro. `example` is a statement
    that asks the object; `notes` is what else there is to know, with the arguments of a macro.
    """

    object: str
    kind: str
    column_name: str | None
    type: str | None
    unit: str | None
    meaning: str
    subject: str
    example: str | None = None
    notes: str | None = None


def sql_files(name: str) -> list[Path]:
    """The SQL files of a folder of this package, by name."""
    return sorted(HERE.joinpath(name).glob("*.sql"))


@functools.cache
def headers() -> dict[str, Header]:
    """All tables, views and macros by name, subject after subject. Raises ValueError for a file that makes none."""
    from kerneldb.schemas.headers import read  # takes longer than most of what asks for SQL

    found = [read(made.decode(), subject) for subject, made in _files().values()]
    return {header.name: header for header in found}


@functools.cache
def table(name: str) -> Header:
    """A table alone, without reading all others."""
    from kerneldb.schemas.headers import read

    return read(_text(name), "")


@functools.cache
def _files() -> dict[str, tuple[str, bytes]]:
    """Object → its subject and the bytes of its file."""
    found = {}
    for subject in SUBJECTS:
        folder = os.path.join(HERE, subject)  # noqa: PTH118 (hundreds of files: pathlib takes longer than to read them)
        for name in sorted(name for name in os.listdir(folder) if name.endswith(".sql")):  # noqa: PTH208
            with open(os.path.join(folder, name), "rb", buffering=0) as file:  # noqa: PTH118, PTH123
                found[name.removesuffix(".sql")] = subject, file.read()
    return found


def _text(name: str) -> str:
    return _files()[name][1].decode()


@functools.cache
def tables() -> Migration:
    """The step from nothing to the newest version: all tables."""
    newest, _, _ = sql_files("migrations")[-1].name.partition("_")
    made = [made.decode() for _, made in _files().values() if TABLE in made]
    return Migration(int(newest), "tables", "\n".join(made))


def derived_tables() -> str:
    """The SQL of the tables whose rows are made of those of others."""
    return "\n".join(map(_text, DERIVED))


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """The steps from the tables of released versions to the newest ones, by version: files `NNNN_name.sql`."""
    found = []
    for file in sql_files("migrations"):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return tuple(found)


def steps_from(version: int) -> tuple[Migration, ...]:
    """What brings tables of `version` (0: none) to those of this version, in order."""
    if version == 0:
        return tables(), *(step for step in migrations() if step.version > tables().version)
    return tuple(step for step in migrations() if step.version > version)


@functools.cache
def objects() -> str:
    """The SQL that makes all views and macros anew, each after what it reads."""
    return "\n".join(headers()[name].sql for name in _in_order())


def _in_order() -> tuple[str, ...]:
    import graphlib

    made = {name: header for name, header in headers().items() if header.kind != "table"}
    reads = {}
    for name, header in made.items():
        code = re.sub(r"--.*", "", header.sql)
        words = re.findall(r"\w+", code.partition("\n")[2] if header.kind == "macro" else code)
        reads[name] = made.keys() & set(words) - {name}
    return tuple(graphlib.TopologicalSorter(reads).static_order())


@functools.cache
def commit_macros() -> str:
    """The SQL of the macros that adding a trace takes."""
    return "\n".join(map(_text, COMMIT_MACROS))


@functools.cache
def docs() -> tuple[Doc, ...]:
    """What the files of the objects say of them and of their columns; of internal ones, that they are there."""
    return tuple(doc for header in headers().values() for doc in _docs(header))


def _docs(header: Header) -> Iterator[Doc]:
    from kerneldb.schemas.headers import columns_of

    kind = f"internal {header.kind}" if header.is_internal else header.kind
    notes = "\n".join((*header.notes, *map(_argument, header.arguments))) or None
    yield Doc(header.name, kind, None, None, None, header.meaning, header.subject, header.example, notes)
    if not header.is_internal:
        for column in columns_of(headers(), header.name):
            yield Doc(header.name, kind, column.name, column.type, column.unit, column.meaning, header.subject)


def _argument(argument: Argument) -> str:
    default = "" if argument.default is None else f" := {argument.default}"
    unit = "" if argument.unit is None else f"[{argument.unit}] "
    return f"{argument.name}{default}: {unit}{argument.meaning}"


@functools.cache
def reference() -> dict[str, dict[str, list[str | None]]]:
    """The reference tables of reference/<table>.csv: table → column → values, '' as NULL."""
    tables = {}
    for file in _reference():
        table = file.name.removesuffix(".csv")
        rows = reference_rows(table)
        tables[table] = {name: [row[name] or None for row in rows] for name in rows[0]}
    return tables


def reference_rows(table: str) -> list[dict[str, str]]:
    """The rows of reference/<table>.csv, as text."""
    text = HERE.joinpath("reference", f"{table}.csv").read_text("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _reference() -> list[Path]:
    return sorted(HERE.joinpath("reference").glob("*.csv"))


def _arithmetic() -> list[Path]:
    """The code that makes the derived tables. By its place: importing it takes longer than reading it."""
    package = Path(importlib.import_module("kerneldb").__path__[0])
    around = package.joinpath("warehouse", "reconciliation.py"), _store("reconciliation")
    return [*sorted(package.joinpath("reconciliation").glob("*.py")), *around]


@functools.cache
def objects_hash() -> str:
    """Changes when the views, macros, docs, reference or derived tables that a file gets change."""
    made = [made for _, made in _files().values()] + [file.read_bytes() for file in (*_reference(), *_arithmetic())]
    return hashlib.sha256(b"\0".join(made)).hexdigest()[:16]


def _store(file: str) -> Path:
    return HERE.joinpath("store", f"{file}.sql")


@functools.cache
def _blocks(file: str) -> dict[str, str]:
    parts = BLOCK.split(_store(file).read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], (COMMENT.sub("", part).strip() for part in parts[2::2]), strict=True))


def statement(file: str, name: str) -> str:
    """The block `-- name: <name>` of store/<file>.sql, without its comments.

    What a block leaves open is filled in with literals. In a comment, which ends with the line, a literal protects from
    nothing: the second line of a name would be a statement.
    """
    return _blocks(file)[name]


def statement_names(file: str) -> tuple[str, ...]:
    """The names of the blocks of store/<file>.sql."""
    return tuple(_blocks(file))
