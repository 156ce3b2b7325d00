"""Stores calls that were inferred for launches recorded without one. Inside the one transaction of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import reconciliation
from kerneldb.warehouse.statements import frame_of

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    Connection = duckdb.DuckDBPyConnection


def store(
    con: Connection,
    trace_id: str,
    rows: pl.DataFrame,
    signatures: pl.DataFrame,
    calls: pl.DataFrame,
    *,
    renew: bool,
) -> None:
    """Write rows of `inferred_calls` of one trace, and the signatures and calls they name where those are missing.

    `signatures` has fact columns and the `name`; what derives from them is derived here. With `renew`, whatever was
    found before without a replay goes; else only the finds for the same launches. Launches and rollups of the trace are
    marked with what is found then.
    """
    of_trace = {"trace_id": trace_id}
    _with(con, rows, "forget", {**of_trace, "renew": renew})
    if rows.height:
        _with(con, calls, "calls")
        _with(con, _derived(con, signatures), "signatures")
        _with(con, rows, "inferred_calls")
    con.execute(statement("found", "unmark"), of_trace)
    con.execute(statement("found", "mark"), of_trace)
    con.execute(statement("found", "forget_rollups"), of_trace)
    con.execute(statement("commit", "roll_up"), of_trace)
    reconciliation.refresh(con, [trace_id])


def _derived(con: Connection, signatures: pl.DataFrame) -> pl.DataFrame:
    from kerneldb import derive

    con.register("found_rows", signatures.to_arrow())
    names = frame_of(con, statement("found", "names"))
    con.unregister("found_rows")
    return derive.derive_signatures(signatures.drop("name"), names)


def _with(con: Connection, frame: pl.DataFrame, name: str, params: dict[str, object] | None = None) -> None:
    con.register("found_rows", frame.to_arrow())
    con.execute(statement("found", name), params)
    con.unregister("found_rows")  # not where it failed: the transaction is over, and its error would hide that one
