"""Reads the SQL files of this package. A few lines, so that the SQL stays SQL."""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import importlib.resources
import io
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

BLOCK: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
NARROWED: Final = {"kernels": "all_launches", "kernel_rollups": "all_rollups"}
"""Views of the primary rows of another view, with its columns but `is_primary`."""
COMMIT_MACROS: Final = ("57_iteration_launches.sql", "65_collective_launches.sql")
DOC_COLUMNS: Final = ("object", "kind", "column_name", "type", "unit", "meaning")


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A step from the version before to `version`: SQL that runs in one transaction with all other steps due."""

    version: int
    name: str
    sql: str


@dataclasses.dataclass(frozen=True, slots=True)
class Doc:
    """The meaning of an object (`column_name` is None) or of one of its columns.

    `kind` is 'table', 'view', 'macro', or 'view, macro' for a view and a table macro of the same name and columns.
    """

    object: str
    kind: str
    column_name: str | None
    type: str | None
    unit: str | None
    meaning: str


def _folder(name: str) -> list[Traversable]:
    files = importlib.resources.files("kerneldb.schemas").joinpath(name).iterdir()
    return sorted((file for file in files if file.name.endswith(".sql")), key=lambda file: file.name)


def _text(name: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in _folder(name))


@functools.cache
def tables() -> Migration:
    """The step from nothing to the newest version: the tables of `tables/`."""
    newest, _, _ = _folder("migrations")[-1].name.partition("_")
    return Migration(int(newest), "tables", _text("tables"))


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """The steps from the tables of released versions to the newest ones, by version: files `NNNN_name.sql`."""
    found = []
    for file in _folder("migrations"):
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
    """The SQL that makes all views and macros anew, by the numbers of the files: each finds what it reads."""
    files = [file for folder in ("macros", "views", "answers") for file in _folder(folder)]
    return "\n".join(file.read_text("utf-8") for file in sorted(files, key=lambda file: file.name.partition("_")[0]))


@functools.cache
def commit_macros() -> str:
    """The SQL of the macros that adding a trace takes."""
    return "\n".join(file.read_text("utf-8") for file in _folder("macros") if file.name in COMMIT_MACROS)


@functools.cache
def docs() -> tuple[Doc, ...]:
    """The rows of reference/schema_docs*.csv, file by file in the order of their names.

    Columns of a view that narrows another one are documented there.
    """
    read = _read_docs()
    narrowed = {wide: narrow for narrow, wide in NARROWED.items()}
    copies = [dataclasses.replace(doc, object=narrowed[doc.object]) for doc in read if _is_narrowed(doc)]
    return (*read, *copies)


def _is_narrowed(doc: Doc) -> bool:
    return doc.object in NARROWED.values() and doc.column_name not in {None, "is_primary"}


def _read_docs() -> tuple[Doc, ...]:
    return tuple(
        Doc(
            row["object"],
            row["kind"],
            row["column_name"] or None,
            row["type"] or None,
            row["unit"] or None,
            row["meaning"],
        )
        for file in _reference("schema_docs")
        for row in _rows(file)
    )


@functools.cache
def reference() -> dict[str, dict[str, list[str | None]]]:
    """The reference tables of reference/<table>.csv: table → column → values, '' as NULL."""
    tables = {}
    for file in _reference(""):
        if not file.name.startswith("schema_docs"):
            rows = _rows(file)
            tables[file.name.removesuffix(".csv")] = {name: [row[name] or None for row in rows] for name in rows[0]}
    return tables


def _reference(prefix: str) -> list[Traversable]:
    files = importlib.resources.files("kerneldb.schemas").joinpath("reference").iterdir()
    found = (file for file in files if file.name.startswith(prefix) and file.name.endswith(".csv"))
    return sorted(found, key=lambda file: file.name)


def _rows(file: Traversable) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))


@functools.cache
def objects_hash() -> str:
    """Tells whether the views, macros, docs and reference tables of a file are those of this version."""
    texts = (objects(), *(file.read_text("utf-8") for file in _reference("")))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@functools.cache
def _blocks(file: str) -> dict[str, str]:
    path = importlib.resources.files("kerneldb.schemas").joinpath("store", f"{file}.sql")
    parts = BLOCK.split(path.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def statement(file: str, name: str) -> str:
    """The block `-- name: <name>` of store/<file>.sql."""
    return _blocks(file)[name]


def statement_names(file: str) -> tuple[str, ...]:
    """The names of the blocks of store/<file>.sql."""
    return tuple(_blocks(file))
