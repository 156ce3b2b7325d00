"""The route of calls that another launch donated: they are rebuilt as recorded ones are, then verified."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.replay import routes
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.triton import code
from kerneldb.replay.wire.plan import Item

TRITON: Final = "triton"
ATEN: Final = "aten"


class InheritedRoute:
    """Hands the donated call to the route that would replay it had it been recorded."""

    name = "inherited"

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """The calls of that route, those of the donor first, then those of further candidates."""
        known = code.specs_of(item)
        if not known:
            raise UnresolvedCallError(Reason.NO_INPUTS, "no call was donated to these kernels")
        for spec in known:
            route = TRITON if code.is_triton(spec.call) else ATEN
            yield from routes.find(route).prepare(dataclasses.replace(item, route=route, spec=spec), device)
