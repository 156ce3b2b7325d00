"""The route of calls that no trace recorded: candidates are run, and the search goes on from what came out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.building import Played, build
from kerneldb.replay.infer.search import Search
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.wire.plan import Item

NO_CANDIDATE: Final = "no call was proposed for these kernels"


class InferredRoute:
    """Tries the candidates of an item, and what the search makes of them."""

    name = "inferred"

    def search(self, item: Item) -> Search:
        """A new search for the call of `item`. Raises UnresolvedCallError where nothing was proposed."""
        if not item.candidates:
            raise UnresolvedCallError(Reason.NO_INPUTS, NO_CANDIDATE)
        return Search(item)

    def prepare(self, item: Item, device: str) -> Iterator[Played]:
        """The candidates in order, without a search. Raises UnresolvedCallError where there are none."""
        for attempt in self.search(item).attempts:
            yield build(attempt, device)
