"""How long before a call its inputs were used: of calls replayed alone, from a recorded iteration with its tensors."""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kerneldb.api import stepping
from kerneldb.api.queries import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerneldb.api.queries import Connection, Row
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
    graphs = sorted({trace_id for trace_id, _ in places})
    listed = rows(con, "step_recorded", {**MOST, "graphs": graphs})
    found = dict(stepping.reuse_of(con, recorded, _with_a_place(listed, places), wanted, places))
    return [dataclasses.replace(item, reuse=found.get(item.id, ())) for item in items]


def _with_a_place(listed: Iterable[Row], places: Iterable[tuple[str, int]]) -> list[Row]:
    """The iterations, of graphs those that have one of the launches."""
    by_trace = defaultdict[str, list[int]](list)
    for trace_id, index in sorted(places):
        by_trace[trace_id].append(index)

    def has_one(row: Row) -> bool:
        indices = by_trace[row["trace_id"]]
        first = bisect.bisect_left(indices, row["first_launch_index"])
        return first < len(indices) and indices[first] <= row["last_launch_index"]

    return [row for row in listed if row["trace_id"] not in by_trace or has_one(row)]


def _places(item: Item) -> Iterator[tuple[str, int]]:
    """The launches that the call of an item stands for, by trace."""
    for kernel in item.kernels:
        for trace_id, indices in (kernel.places or {}).items():
            yield from ((trace_id, index) for index in indices)
