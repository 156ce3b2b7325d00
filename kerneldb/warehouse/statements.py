"""Runs statements of `schemas`, each planned once.

A relation (`con.sql`) is planned when it is made and again when it is read, which takes longer than most answers.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb
    import polars as pl
    import pyarrow as pa

    Connection = duckdb.DuckDBPyConnection

# DuckDB 2.0 says so of each table. Of the rows of an answer the copy takes less than planning the statement again.
warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy", UserWarning, __name__)


def execute_all(con: Connection, sql: str, params: Mapping[str, object]) -> None:
    """Run several statements with the same parameters: DuckDB binds them to the last one of a text only."""
    for part in con.extract_statements(sql):
        con.execute(part, dict(params))


def execute_rows(con: Connection, sql: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Run a statement once for all rows: each of its parameters is a column. In a lake each statement costs."""
    con.execute(sql, dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def rows_of(con: Connection, sql: str, params: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """The rows of one statement, by column name."""
    found = con.execute(sql, dict(params) if params else None)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def table_of(con: Connection, sql: str, params: Mapping[str, object] | None = None) -> pa.Table:
    """The rows of one statement as an Arrow table. For answers: the engine holds the rows a second time meanwhile."""
    return con.execute(sql, dict(params) if params else None).to_arrow_table()


def frame_of(con: Connection, sql: str, params: Mapping[str, object] | None = None) -> pl.DataFrame:
    """The rows of one statement as a frame."""
    import polars as pl

    return pl.DataFrame(table_of(con, sql, params))
