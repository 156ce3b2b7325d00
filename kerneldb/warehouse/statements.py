"""Runs statements of `schemas/store` and returns their rows as dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb

    Connection = duckdb.DuckDBPyConnection


def execute_all(con: Connection, sql: str, params: Mapping[str, object]) -> None:
    """Run several statements with the same parameters: DuckDB binds them to the last one of a text only."""
    for part in con.extract_statements(sql):
        con.execute(part, dict(params))


def execute_rows(con: Connection, sql: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Run a statement once for all rows: each of its parameters is a column. In a lake each statement costs."""
    con.execute(sql, dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def rows_of(con: Connection, sql: str, params: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """The rows of one statement, by column name."""
    found = con.execute(sql, None if params is None else dict(params))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
