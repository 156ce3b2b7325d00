"""Sums of embeddings, where all bags are of one size, by operators that a compiler knows.

`embedding_bag` is one kernel per table, which a compiler cannot fuse with what makes its indices and takes its sums; a
lookup and a sum over one dim it can.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.replay.errors import FAILURES
from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph, region

BAGS: Final = frozenset({"_embedding_bag", "_embedding_bag_forward_only"})
MODES: Final = ("sum", "mean")
UNUSED: Final = ("scale_grad_by_freq", "sparse", "per_sample_weights", "include_last_offset")


class EmbeddingBags(Rewrite):
    """Bags of one size as a lookup and a sum, or a mean."""

    name = "embedding_bags"
    about = "embedding bags of one size as lookups and sums, which a compiler fuses"
    compiler_misses = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each table."""
        for node in flow.nodes:
            size = _size(flow, node) if node.op in BAGS else 0
            if not size:
                continue
            offsets = flow.from_nothing(node.argument("offsets"))
            try:
                covered = region(flow, [*offsets, node.place])
                if len(covered.outputs) != 1:  # another table has the same offsets, or the counts of bags are used
                    covered = region(flow, [node.place])
            except CannotTryError:
                continue
            if covered.outputs == node.call.outputs[:1]:
                make = functools.partial(_function, covered, node, size)
                bags = flow.tensor(node.call.outputs[0]).dims
                yield Proposal(covered, make, Change(self.name), what=f"{bags[0]} bags of {size}, {bags[1]} wide")


def _size(flow: Flow, node: Node) -> int:
    """How many indices each bag has; 0 where they differ, or that is not known, or more than a sum is asked for."""
    import torch

    offsets, indices = node.argument("offsets"), node.argument("indices")
    plain = node.argument("mode") in range(len(MODES)) and not any(node.argument(one) for one in UNUSED)
    if not plain or not isinstance(offsets, Slot) or (node.argument("padding_idx") or -1) >= 0:
        return 0
    bags, count = flow.tensor(offsets).dims[0], flow.tensor(indices).dims[0]
    places = flow.from_nothing(offsets)
    if not places or not bags or count % bags:
        return 0
    try:
        (made,) = graph(region(flow, sorted(places)))()
    except (*FAILURES, CannotTryError, ValueError):
        return 0
    wanted = torch.arange(0, count, count // bags, device=made.device, dtype=made.dtype)
    return count // bags if torch.equal(made, wanted) else 0


def _function(covered: Region, node: Node, size: int) -> Function:
    import torch.nn.functional as functions

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    at_weight, at_indices = order[node.argument("weight")], order[node.argument("indices")]
    reduced = MODES[node.argument("mode")]

    def call(*tensors: Any) -> list[Any]:  # plain values only: a compiler looks into it
        found = functions.embedding(tensors[at_indices].view(-1, size), tensors[at_weight])
        return [getattr(found, reduced)(1)]

    return call
