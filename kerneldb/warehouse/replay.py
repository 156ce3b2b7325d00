"""Stores what replays found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import reconciliation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    Connection = duckdb.DuckDBPyConnection

TABLES = (
    "replay_runs", "replay_routes", "replay_calls", "replay_attempts", "replays", "power_samples", "step_replays",
    "step_kernels",
)  # fmt: skip


def store(
    con: Connection,
    run_id: str,
    items: Sequence[str],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    new: bool = True,
    balance: bool = True,
) -> None:
    """Write rows of the replay tables, replacing those of the same run and items. The caller holds the transaction.

    Readings of a `new` run replace those of an earlier writing of it, else they are added. Without `balance`, that of
    measured and predicted is left to the next one, which follows.
    """
    for name in ("forget_run", "forget_power") if new else ("forget_run",):
        con.execute(statement("replay", name), {"run_id": run_id})
    if rows.get("replay_routes"):
        known = {"names": [row["route"] for row in rows["replay_routes"]]}
        con.execute(statement("replay", "forget_routes"), known)
    for name in ("forget_calls", "forget_attempts", "forget_replays"):
        con.execute(statement("replay", name), {"run_id": run_id, "items": list(items)})
    if rows.get("step_replays"):
        steps = sorted({row["step_id"] for row in rows["step_replays"]})
        for name in ("forget_steps", "forget_step_kernels"):
            con.execute(statement("replay", name), {"run_id": run_id, "steps": steps})
    for table in TABLES:
        if rows.get(table):
            _insert(con, table, rows[table])
    if balance:
        reconciliation.refresh(con)


def _insert(con: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa

    columns = list(dict.fromkeys(name for row in rows for name in row))
    con.register("replay_rows", pa.table({name: [row.get(name) for row in rows] for name in columns}))
    con.execute(statement("replay", table))
    con.unregister("replay_rows")  # not where it failed: the transaction is over, and its error would hide that one


def store_improvements(con: Connection, traces: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of `improvements`, replacing those of the same traces. The caller holds the transaction."""
    con.execute(statement("replay", "forget_improvements"), {"traces": list(traces)})
    if rows:
        _insert(con, "improvements", rows)
