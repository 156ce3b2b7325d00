"""The route of calls that another launch donated: they are rebuilt as recorded ones are, then verified."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kerneldb.replay import routes
from kerneldb.replay.plan.work import Archive, Work
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.routes.base import Route, Seen
from kerneldb.replay.triton import code
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item
from kerneldb.replay.wire.results import CallResult

if TYPE_CHECKING:
    from kerneldb.replay.routes.grades import CallMatch

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

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """The calls of that route, those of the donor first, then those of further candidates."""
        known = code.specs_of(item)
        if not known:
            raise UnresolvedCallError(Reason.NO_INPUTS, "no call was donated to these kernels")
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
