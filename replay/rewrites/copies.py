"""Conversions that need not be made: of parameters in every step, of the same tensor again, and there and back."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.products import Kept
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph, region


class RoundTrips(Rewrite):
    """Copies whose result is there already."""

    name = "conversions"
    about = "conversions and copies of parameters made once, and those of the same tensor made again left out"
    removes_launches = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each copy of a parameter, and for each copy that was made before."""
        earlier: dict[Any, Node] = {}
        for node in flow.nodes:
            source = node.argument("src") if node.op == "copy_" else None
            if not isinstance(source, Slot) or not _stays(flow, node):
                continue
            constant = flow.step.storages[flow.storage(source)].given and _is_weight(flow, node, source)
            before = flow.source(source, node.place)
            key = (source, before.place if before else -1, _layout(flow, node))
            first = earlier.setdefault(key, node)
            try:
                if constant and len(flow.tensor(source).dims) > 1:
                    yield self._once(flow, node)
                elif first is not node:
                    yield self._again(flow, first, node)
            except CannotTryError:
                continue

    def _once(self, flow: Flow, node: Node) -> Proposal:
        covered = region(flow, [node.place])
        change = Change("advice", innermost(flow, [node.place]), text="keep the parameter in this type and layout")
        return Proposal(covered, functools.partial(_kept, covered), change, what="of a parameter, in every step")

    def _again(self, flow: Flow, first: Node, node: Node) -> Proposal:
        covered = region(flow, [first.place, node.place])
        change = Change("advice", innermost(flow, covered.places), text="keep the converted tensor and use it again")
        return Proposal(covered, functools.partial(_shared, covered), change, what="of the same tensor, again")


def _is_weight(flow: Flow, node: Node, source: int) -> bool:
    """Whether a product or a convolution takes the copy as its weight, and the step leaves what is copied as it is."""
    made = flow.storage(flow.result(node))
    taken = [one.argument(name) for one in flow.users(node) if one.op for name in ("mat2", "weight")]
    used = any(isinstance(one, Slot) and flow.storage(one) == made for one in taken)
    return used and not flow.writers[flow.storage(source)]


def _layout(flow: Flow, node: Node) -> Any:
    tensor = flow.tensor(flow.result(node))
    return tensor.dims, tensor.strides, tensor.dtype


def _stays(flow: Flow, node: Node) -> bool:
    """Whether a copy fills a new tensor that nothing changes afterwards."""
    storage = flow.storage(flow.result(node))
    return flow.writers[storage] == [node.place] and not flow.step.storages[storage].given


def _kept(covered: Region) -> Function:
    kept = Kept(lambda tensors: graph(covered)(*tensors))
    return lambda *tensors: kept.of(tensors)


def _shared(covered: Region) -> Function:
    original = graph(region(covered.flow, covered.places[:1]))

    def call(*tensors: Any) -> list[Any]:
        (made,) = original(*tensors)
        return [made] * len(covered.outputs)

    return call
