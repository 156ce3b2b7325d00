"""Copies what was learned of traces between databases: notes, results of replays, calls that were found.

All of it may grow after the traces were copied, so it is compared on every copy. The rules are those of
store/results.sql: what is there stays, unless the source got further with it; so a second copy writes nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import closure
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    Connection = duckdb.DuckDBPyConnection


@dataclasses.dataclass(frozen=True, slots=True)
class Learned:
    """How much goes over, or went: notes, items of replay runs, runs, and launches whose call was found."""

    notes: int = 0
    items: int = 0
    runs: int = 0
    finds: int = 0

    def __bool__(self) -> bool:
        """Whether there is anything at all."""
        return any(dataclasses.astuple(self))


def listed(con: Connection, trace_ids: Sequence[str]) -> Learned:
    """Find what `source` knows of the traces and the database does not; it is left in temporary tables."""
    if con.execute(statement("results", "held")).fetchone() == (False,):
        return Learned()
    ids = {"trace_ids": list(trace_ids)}
    con.execute(statement("lake", "used_names"), ids)
    for name in ("list_notes", "list_concerned", "list_items", "list_runs"):
        con.execute(statement("results", name))
    con.execute(statement("results", "list_finds"), ids)
    return Learned(*con.execute(statement("results", "listed")).fetchone() or ())


def add(con: Connection, trace_ids: Sequence[str]) -> Learned:
    """Copy what `source` knows of the traces, which are there. Runs inside the transaction of the caller."""
    found = listed(con, trace_ids)
    if found.items or found.finds:
        _add_names(con, trace_ids)
    for part in ("notes", "items", "runs", "finds"):
        if getattr(found, part):
            execute_all(con, statement("results", part), {})
    if found.finds:
        _mark(con)
    if found.items or found.runs or found.finds:
        closure.refresh(con)
    return found


def _add_names(con: Connection, trace_ids: Sequence[str]) -> None:
    """Add the signatures, names and calls that were found since the traces were copied."""
    ids = {"trace_ids": list(trace_ids)}
    for table in ("kernel_names", "op_calls"):
        con.execute(statement("lake", f"copy_{table}"), ids)
    con.execute(statement("lake", "copy_signatures"))


def _mark(con: Connection) -> None:
    for (trace_id,) in con.execute(statement("results", "found_traces")).fetchall():
        key = {"trace_id": trace_id}
        for name in ("unmark", "mark", "forget_rollups"):
            con.execute(statement("found", name), key)
        con.execute(statement("commit", "roll_up"), key)
