"""Brings sources of Triton kernels from the database into a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldb.api.queries import statement
from kerneldb.replay.triton import code, constants
from kerneldb.replay.triton.code import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.replay.wire.plan import Item, OpCall


def is_triton(call: OpCall) -> bool:
    """Whether `call` is a launch of a Triton kernel."""
    return code.is_triton(call)


def sources_for(con: duckdb.DuckDBPyConnection, calls: Sequence[OpCall]) -> dict[str, Any]:
    """The archived sources that `calls` were launched from, by hash, as a plan carries them.

    A call without a hash takes all sources of its name.
    """
    from kerneldb.warehouse.statements import rows_of

    launched = [(call, constants.read(call.extra)) for call in calls]
    hashes = {one.kernel_hash for _, one in launched if one is not None and one.kernel_hash is not None}
    names = {code.function_name(call) for call, one in launched if one is not None and one.kernel_hash is None}
    if not hashes and not names:
        return {}
    wanted = {"hashes": sorted(hashes), "names": sorted(names)}
    rows = rows_of(con, statement("replay_sources"), wanted)
    found = [Code(**row) for row in rows]
    return {one.hash: code.to_source(one) for one in found}


def with_reasons(routes: pa.Table, items: Sequence[Item], sources: Mapping[str, Any]) -> pa.Table:
    """The routes of a plan, with what Triton kernels lack, those of inherited calls too."""
    import pyarrow as pa

    lacking: dict[tuple[str, str], str | None] = {}
    for item in items:
        if item.spec is not None and item.route in code.RUNNING and code.is_triton(item.spec.call):
            reason = replayable(item.spec.call, sources)
            for kernel in item.kernels:
                place = (kernel.signature_id, item.route)
                lacking[place] = lacking.get(place) or reason
    rows = [_settled(row, lacking) for row in routes.to_pylist()]
    return pa.Table.from_pylist(rows, schema=routes.schema)


def _settled(row: dict[str, Any], lacking: Mapping[tuple[str, str], str | None]) -> dict[str, Any]:
    recorded, own = (row["signature_id"], code.ROUTE), (row["signature_id"], row["route"])
    if recorded in lacking:
        return {**row, "route": code.ROUTE, "reason": lacking[recorded]}
    return {**row, "reason": lacking[own]} if own in lacking else row


def replayable(call: OpCall, sources: Mapping[str, Any]) -> str | None:
    """Why `call` cannot be launched from its own source; None where it can."""
    return code.reason(call, sources)
