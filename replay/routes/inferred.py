"""The route of calls that no trace recorded: candidates are run, and the search goes on from what came out."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldb.replay.infer.search import Search, again, build
from kerneldb.replay.plan.work import Work
from kerneldb.replay.resolve import BuiltCall
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.routes.base import Route
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult


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
