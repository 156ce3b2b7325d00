"""The route of calls that another launch donated: they are rebuilt as recorded ones are, then verified.

The route of calls that no trace recorded: candidates are run, and the search goes on from what came out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kerneldb.replay import routes
from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.infer import attention
from kerneldb.replay.infer.search import Search, again, build
from kerneldb.replay.plan.work import Archive, Work
from kerneldb.replay.resolve import BuiltCall
from kerneldb.replay.routes.base import Route, Seen
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.triton import code
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item
from kerneldb.replay.wire.results import CallResult

TRITON, ATEN = "triton", "aten"


class InheritedRoute(Route):
    """Hands the donated call to the route that would replay it had it been recorded."""

    name = "inherited"
    about = "rebuilds the call of the same launch elsewhere in the database, for launches without one"
    source = name

    def claims(self, work: Work) -> bool:
        """Launches without a recorded call to which another launch donates one for sure."""
        return work.spec is not None and bool(work.candidates)

    def sources(self, items: Sequence[Item], archive: Archive) -> Mapping[str, Any]:
        """Those of the donated calls."""
        return routes.find(TRITON).sources(items, archive)

    def lacks(self, item: Item, sources: Mapping[str, Any]) -> str | None:
        """What the donated call lacks."""
        return None if item.spec is None else _route(item.spec).lacks(item, sources)

    def search(self, item: Item) -> Search | None:
        """One for attention: which of the calls that fit its kernel it was, shows in the time only."""
        known = code.specs_of(item)
        return Search(item) if known and all(attention.is_attention(spec.call) for spec in known) else None

    def again(self, item: Item, result: CallResult) -> tuple[Item, int] | None:
        """The item with the call that was chosen among several as its only one."""
        searched = again(item, result) if result.trail else None
        return super().again(item, result) if searched is None else (searched, 0)

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """The calls of that route, those of the donor first, then those of further candidates."""
        known = code.specs_of(item)
        if not known:
            raise UnresolvedCallError(Reason.NO_INPUTS, "no call was donated to these kernels")
        searched = self.search(item)
        if searched is not None:
            yield from (build(attempt, device) for attempt in searched.attempts)
            return
        for spec in known:
            route = _route(spec)
            yield from route.prepare(dataclasses.replace(item, route=route.name, spec=spec), device)

    def verify(self, item: Item, call: Any, seen: Seen) -> CallMatch:
        """As the route of the donated call does."""
        route = TRITON if call.overload.startswith(f"{TRITON} ") else ATEN
        return routes.find(route).verify(item, call, seen)

    def accepted(self, item: Item, result: CallResult | None = None) -> Candidate | None:
        """The call that a search found, else the donated one."""
        return super().accepted(item, result) or next(iter(item.candidates), None)


def _route(spec: CallSpec) -> Route:
    """The route that would have the call had it been recorded."""
    return routes.find(TRITON if code.is_triton(spec.call) else ATEN)


class InferredRoute(Route):
    """Tries the candidates of an item, and what the search makes of them."""

    name = "inferred"
    about = "tries calls that are proposed for launches without one, from name, grid, duration and order"
    source = name

    def claims(self, work: Work) -> bool:
        """Launches without a recorded call for which there is anything to try."""
        return work.spec is None and bool(work.candidates)

    def search(self, item: Item) -> Search | None:
        """A new search for the call of `item`; None where nothing was proposed."""
        return Search(item) if item.candidates else None

    def prepare(self, item: Item, device: str) -> Iterator[BuiltCall]:
        """The candidates in order, without a search. Raises UnresolvedCallError where there are none."""
        if not item.candidates:
            raise UnresolvedCallError(Reason.NO_INPUTS, "no call was proposed for these kernels")
        for attempt in Search(item).attempts:
            yield build(attempt, device)

    def again(self, item: Item, result: CallResult) -> tuple[Item, int] | None:
        """The item with the call that was accepted as its only candidate."""
        if result.attempt is None or not item.candidates:
            return super().again(item, result)
        searched = again(item, result)
        return None if searched is None else (searched, 0)
