"""Copies of SQLite files in which tables have another number of rows."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MANY = 1_000
"""Rows of a table of many."""


def tables(path: Path) -> list[str]:
    """Names of the tables of a database, without those of labels: there is nothing to read in most of them."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in found if not name.startswith(("ENUM_", "sqlite_"))]


def resized(path: Path, copy: Path, names: Iterable[str], rows: int) -> Path:
    """`path` as `copy`, with so many rows in the tables `names`: those there are, repeated, or made of the schema.

    Keys and other constraints of the tables are dropped; the first column counts where it was a key of whole numbers.
    """
    shutil.copyfile(path, copy)
    copy.chmod(0o644)
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        for table in names:
            _resize(connection, table, rows)
        connection.commit()
    return copy


def _resize(connection: sqlite3.Connection, table: str, rows: int) -> None:
    columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    given = connection.execute(f'SELECT * FROM "{table}"').fetchall() or [tuple(map(_value, columns))]
    key = next((place for place, (_, _, kind, _, _, first) in enumerate(columns) if first and kind == "INTEGER"), None)
    plain = ", ".join(f'"{name}" {kind}' for _, name, kind, *_ in columns)
    connection.execute(f'DROP TABLE "{table}"')
    connection.execute(f'CREATE TABLE "{table}" ({plain})')
    filled = itertools.islice(_filled(given, key), rows)
    connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', filled)


def _value(column: tuple[Any, ...]) -> object:
    _, name, kind, *_ = column
    return f"{name} of a row" if kind.upper().startswith(("TEXT", "VARCHAR", "JSONB")) else 1


def _filled(given: list[tuple[Any, ...]], key: int | None) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(itertools.cycle(given)):
        again = number >= len(given) and key is not None
        yield tuple(-number if again and place == key else value for place, value in enumerate(row))
