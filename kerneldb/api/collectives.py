"""Plans the replay of collectives: what ranks exchanged, from what the launches say, not from an operator call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.recorded import rows, triple
from kerneldb.ids import content_id
from kerneldb.replay.routes.collective import ROUTE
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, PlannedKernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import duckdb

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]

OPERATOR: Final = "record_param_comms"
"""The operator by which PyTorch notes what a collective exchanges."""
SAID: Final = {
    "Collective name": "collective",
    "dtype": "collective_dtype",
    "In msg nelems": "collective_in_elements",
    "Out msg nelems": "collective_out_elements",
    "Group size": "group_size",
}
NOT_RECORDED: Final = "what the collective exchanges is not recorded"


def items(con: Connection, signatures: Iterable[str]) -> Iterator[Item]:
    """An item per kernel, type, sizes and ranks of the collectives in `selection` that have these signatures."""
    for row in rows(con, "replay_collectives", {"signatures": list(signatures)}):
        said = json.dumps({name: row[column] for name, column in SAID.items() if row[column] is not None})
        kernel = PlannedKernel(
            ordinal=0,
            signature_id=row["signature_id"],
            name=row["name"],
            grid=triple(row, "grid"),
            block=triple(row, "block"),
            shared_bytes=row["shared_bytes"],
            launches=row["launches"],
            median_ns=row["median_ns"],
            total_ns=row["total_ns"],
        )
        spec = CallSpec(OpCall(OPERATOR, extra=said))
        yield Item(content_id("p1", kernel.signature_id, said), ROUTE, spec, (kernel,))


def without(calls: Iterable[Item], planned: Iterable[Item]) -> list[Item]:
    """The `calls` less those that launched nothing but collectives: operators that only pass them on."""
    covered = {kernel.signature_id for item in planned for kernel in item.kernels}
    return [item for item in calls if not {kernel.signature_id for kernel in item.kernels} <= covered]


def with_reasons(routes: Iterable[Row], planned: Iterable[Item]) -> list[Row]:
    """The routes of signatures, those of collectives with the reason why one has none."""
    covered = {kernel.signature_id for item in planned for kernel in item.kernels}

    def settled(row: Row) -> Row:
        if row["route"] != ROUTE:
            return row
        known = row["signature_id"] in covered
        return {**row, "route": ROUTE if known else "none", "reason": None if known else NOT_RECORDED}

    return [settled(row) for row in routes]
