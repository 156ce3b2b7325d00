"""Launches that are known by their sums alone: a tool reported them together, and no screen can list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from kerneldb.tui.model import Choice
    from kerneldb.tui.store import Store

    Connection = duckdb.DuckDBPyConnection


async def summed(store: Store, choice: Choice) -> int:
    """How many such launches count among those of `choice`; a WHERE text is asked of launches, so it meets none."""
    if choice.where.strip():
        return 0
    from kerneldb.api.queries import rollups, statement

    def ask(con: Connection) -> int:
        con.register("whole", rollups(con, choice.traces))
        ((found,),) = con.execute(statement("tui_summed")).fetchall()
        return int(found)

    return await store.read(ask)
