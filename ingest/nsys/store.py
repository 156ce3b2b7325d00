"""The tables of an export, from SQLite or from a folder of Parquet files: the same names and columns in both.

Tables are absent where the capture had nothing for them, columns where the version did not know them, and some
exports carry versioned names (`NVTX_EVENTS_V2`), so both are looked up by pattern and missing columns read as NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import sqlite

Schema = Mapping[str, type[pl.DataType]]
IN_SPAN: Final = "WHERE _rowid_ BETWEEN ? AND ?"
VERSIONED: Final = re.compile(r"(.+)_V(\d+)", re.IGNORECASE)


class Store(Protocol):
    """Tables of one export."""

    def columns(self, table: str) -> frozenset[str]:
        """Columns of a table; none where it is not there."""

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """These columns of a table, in batches; no batch where the table is not there, NULL for missing columns."""

    def count(self, table: str) -> int:
        """Rows of a table, 0 where it is not there."""


def frame(store: Store, table: str, schema: Schema) -> pl.DataFrame:
    """A small table as a whole."""
    return pl.concat([pl.DataFrame(schema=schema), *store.frames(table, schema)])


class Resolved:
    """Finds the name that a table has in this export."""

    def __init__(self, tables: Mapping[str, tuple[str, ...]]) -> None:
        self._columns = tables
        self._names = _latest(tables)

    def name(self, table: str) -> str | None:
        """The table of that name, or else its highest version."""
        return table if table in self._columns else self._names.get(table)

    def columns(self, table: str) -> tuple[str, ...]:
        """Columns of the table, none where it is not there."""
        found = self.name(table)
        return () if found is None else self._columns[found]


def _latest(tables: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    versions: dict[str, tuple[int, str]] = {}
    for name in tables:
        found = VERSIONED.fullmatch(name)
        if found is not None:
            base, version = found.group(1), int(found.group(2))
            versions[base] = max(versions.get(base, (0, "")), (version, name))
    return {base: name for base, (_, name) in versions.items()}


class SqliteStore:
    """An export as SQLite."""

    def __init__(self, database: sqlite.Database) -> None:
        self._database = database
        self._tables = Resolved(database.tables())

    def columns(self, table: str) -> frozenset[str]:
        """Columns of a table."""
        return frozenset(self._tables.columns(table))

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of a table through ADBC."""
        name, present = self._tables.name(table), self.columns(table)
        if name is None:
            return
        chosen = ", ".join(sqlite.quoted(one) if one in present else "NULL" for one in schema)
        spans = self._database.spans(name)
        where = (IN_SPAN,) if spans else ()
        sql = " ".join(("SELECT", chosen, "FROM", sqlite.quoted(name), *where))
        yield from sqlite.gathered(self._database.frames(sql, schema, spans=spans))

    def count(self, table: str) -> int:
        """Rows of a table."""
        name = self._tables.name(table)
        found = [] if name is None else self._database.rows(" ".join(("SELECT count(*) FROM", sqlite.quoted(name))))
        return sum(number for (number,) in found)


class ParquetStore:
    """An export as a folder of Parquet files (`nsys export --type parquetdir`), one per table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = Resolved({path.stem: self._names(path) for path in sorted(folder.glob("*.parquet"))})

    def columns(self, table: str) -> frozenset[str]:
        """Columns of a table."""
        return frozenset(self._tables.columns(table))

    def frames(self, table: str, schema: Schema) -> Iterator[pl.DataFrame]:
        """Batches of a table."""
        name, present = self._tables.name(table), self.columns(table)
        if name is None:
            return
        path = self._folder / f"{name}.parquet"
        with self._open(path) as file:
            columns = [one for one in schema if one in present]
            for batch in file.iter_batches(batch_size=sqlite.BATCH_ROWS, columns=columns):
                yield _shaped(pl.DataFrame(batch), schema)

    def count(self, table: str) -> int:
        """Rows of a table."""
        name = self._tables.name(table)
        if name is None:
            return 0
        with self._open(self._folder / f"{name}.parquet") as file:
            rows: int = file.metadata.num_rows
            return rows

    def _names(self, path: Path) -> tuple[str, ...]:
        with self._open(path) as file:
            return tuple(file.schema_arrow.names)

    def _open(self, path: Path) -> Any:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            return parquet.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            message = (
                f"{path}: damaged ({str(error).splitlines()[0]}). "
                "Export again: `nsys export --type parquetdir FILE.nsys-rep`."
            )
            raise UnreadableTraceError(message) from error


def _shaped(part: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of `schema`. Ids are unsigned in Parquet; SQLite holds the same 64 bits as signed integers."""
    unsigned = [name for name, kind in part.schema.items() if kind == pl.UInt64]
    part = part.with_columns(pl.col(unsigned).reinterpret(signed=True)) if unsigned else part
    return part.select(
        (pl.col(name) if name in part.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items()
    )
