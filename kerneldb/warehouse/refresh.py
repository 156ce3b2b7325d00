"""Decodes kernel names and problem sizes anew, from the distinct facts that the file holds, and what rests on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb import derive
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import commit, reconciliation
from kerneldb.warehouse.statements import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import polars as pl

    Connection = duckdb.DuckDBPyConnection
    Progress = Callable[[str, int], None]


def refresh(con: Connection, progress: Progress | None, *, everything: bool) -> dict[str, int]:
    """Renew the rows that an older deriver made (`everything`: all rows); rows per table.

    `progress` is called with a table and how many of its rows are about to be derived.
    """
    names = _frame(con, "stale_names", everything=everything, version=derive.names_version())
    _tell(progress, "kernel_names", names.height)
    if names.height:
        _write(con, "names", derive.derive_names(names))
    facts = _frame(con, "stale_signatures", everything=everything, version=derive.signatures_version())
    _tell(progress, "signatures", facts.height)
    if facts.height:
        _write(con, "signatures", derive.derive_signatures(facts, _frame(con, "names_of")))
    traces = con.execute(statement("refresh", "unbinned"), {"everything": everything or names.height > 0}).fetchall()
    for (trace_id,) in traces:
        commit.bin_up(con, trace_id)
    reconciliation.refresh(con)
    return {"kernel_names": names.height, "signatures": facts.height}


def _frame(con: Connection, name: str, **params: object) -> pl.DataFrame:
    return frame_of(con, statement("refresh", name), params)


def _write(con: Connection, what: str, derived: pl.DataFrame) -> None:
    con.register("derived", derived.to_arrow())
    con.execute(statement("refresh", f"delete_{what}"))
    con.execute(statement("refresh", f"insert_{what}"))
    con.unregister("derived")


def _tell(progress: Progress | None, table: str, rows: int) -> None:
    if progress is not None:
        progress(table, rows)
