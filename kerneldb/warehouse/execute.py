"""Runs the statements of users: one at a time, read to the end, with a time limit."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import duckdb

from kerneldb.errors import QueryError, QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    Connection = duckdb.DuckDBPyConnection
    Params = Mapping[str, Any] | Sequence[Any]


def run(con: Connection, sql: str, params: Params | None, timeout: float | None) -> pa.Table:
    """The rows of the one statement `sql`; a table without columns where the engine returns nothing.

    Raises QueryError with the engine's message (which marks the place), QueryTimeoutError after `timeout` seconds.
    """
    with query_errors(), time_limit(con, timeout):
        _require_one(con, sql)
        # The stubs say that there always is one, but DuckDB 1.5 returns None for statements without rows.
        relation: duckdb.DuckDBPyRelation | None = _bound(con, sql, params)
        return _nothing() if relation is None else relation.to_arrow_table()


def _bound(con: Connection, sql: str, params: Params | None) -> duckdb.DuckDBPyRelation:
    """The relation of a statement. What does not bind is handed to `execute`, whose message marks the place."""
    try:
        return con.sql(sql, params=params)
    except (duckdb.BinderException, duckdb.CatalogException):
        con.execute(sql, params)
        raise


def _nothing() -> pa.Table:
    import pyarrow as pa

    return pa.table({})


def _require_one(con: Connection, sql: str) -> None:
    count = len(con.extract_statements(sql))
    if count != 1:
        message = f"one statement at a time, please: this text holds {count}"
        raise QueryError(message)


@contextlib.contextmanager
def query_errors() -> Iterator[None]:
    """Turn errors of the engine into QueryError, with a hint where the database was only opened for reading."""
    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        hint = "\nThe database is opened read-only; --write (write=True) allows changes." if "read-only" in text else ""
        raise QueryError(text + hint) from error


@contextlib.contextmanager
def time_limit(con: Connection, timeout: float | None) -> Iterator[None]:
    """Interrupt the connection after `timeout` seconds (None: never) and raise QueryTimeoutError then."""
    if timeout is None:
        yield
        return
    timer = threading.Timer(timeout, con.interrupt)
    timer.start()
    try:
        yield
    except duckdb.InterruptException as error:
        message = f"cancelled after {timeout:g} s"
        raise QueryTimeoutError(message) from error
    finally:
        timer.cancel()
