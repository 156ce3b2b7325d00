"""Stores what replays found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import closure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    Connection = duckdb.DuckDBPyConnection

TABLES = ("replay_runs", "replay_calls", "replay_tries", "replays", "power_samples")


def store(
    con: Connection,
    run_id: str,
    items: Sequence[str],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    balance: bool = True,
) -> None:
    """Write rows of the replay tables, replacing those of the same run and items. The caller holds the transaction.

    Without `balance`, that of measured and predicted is left to the next one, which follows.
    """
    for name in ("forget_run", "forget_power"):
        con.execute(statement("replay", name), {"run_id": run_id})
    for name in ("forget_calls", "forget_tries", "forget_replays"):
        con.execute(statement("replay", name), {"run_id": run_id, "items": list(items)})
    for table in TABLES:
        if rows.get(table):
            _insert(con, table, rows[table])
    if balance:
        closure.refresh(con)


def _insert(con: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa

    columns = list(dict.fromkeys(name for row in rows for name in row))
    con.register("replay_rows", pa.table({name: [row.get(name) for row in rows] for name in columns}))
    try:
        con.execute(statement("replay", table))
    finally:
        con.unregister("replay_rows")
