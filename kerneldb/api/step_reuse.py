"""How long before a call its inputs were used: of calls replayed alone, from a recorded iteration with its tensors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.api import stepping
from kerneldb.api.queries import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerneldb.api.queries import Connection
    from kerneldb.api.recorded import Recorded
    from kerneldb.replay.wire.plan import Item

ROUTES: Final = frozenset({"aten", "triton"})
"""Those whose calls name their arguments as the recorded ones do."""
INHERITED: Final = "inherited"
MOST: Final = {"traces": 4, "launches": 5_000}
"""Traces that are looked at, and launches of an iteration: they are rebuilt while the plan is waited for."""


def with_distances(con: Connection, recorded: Recorded, items: Sequence[Item]) -> list[Item]:
    """The items with the distances of their inputs, where a trace of the selection tells them."""
    wanted = {item.id for item in items if item.spec is not None and item.route in ROUTES}
    places = {place: item.id for item in items if item.route == INHERITED for place in _places(item)}
    if not wanted and not places:
        return list(items)
    asked = {**MOST, "graphs": bool(places)}
    found = dict(stepping.reuse_of(con, recorded, rows(con, "step_recorded", asked), wanted, places))
    return [dataclasses.replace(item, reuse=found.get(item.id, ())) for item in items]


def _places(item: Item) -> Iterator[tuple[str, int]]:
    """The launches that the call of an item stands for, by trace."""
    for kernel in item.kernels:
        for trace_id, indices in (kernel.places or {}).items():
            yield from ((trace_id, index) for index in indices)
