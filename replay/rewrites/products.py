"""Products of the same tensor with several weights (query, key and value; gate and up) as one."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.region import CannotTryError, Region, region

WEIGHT = "mat2"


class Kept:
    """What is made of parameters once, and anew where others are given. It holds them: none takes their place."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._key: tuple[Any, ...] = ()
        self._held: Sequence[Any] = ()
        self._made: Any = None

    def of(self, tensors: Sequence[Any]) -> Any:
        """What was made of these tensors."""
        key = tuple((one.data_ptr(), one._version, one.shape, one.stride()) for one in tensors)
        if key != self._key:
            self._key, self._held, self._made = key, list(tensors), self._make(tensors)
        return self._made


class MergedProducts(Rewrite):
    """One product with the weights side by side in place of several."""

    name = "merged_products"
    about = "products of one tensor with several weights as one, with the weights side by side"
    removes_launches = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each tensor that several weights are multiplied with."""
        groups: dict[tuple[int, int], list[Node]] = defaultdict(list)
        for node in flow.nodes:
            if node.op in {"mm", "addmm"} and is_weight(flow, node):
                slot = factor(node)
                source = flow.source(slot, node.place)
                groups[slot, -1 if source is None else source.place].append(node)
        for nodes in groups.values():
            same = [one for one in nodes if one.op == nodes[0].op]
            if len(same) < 2:  # noqa: PLR2004 (at least two to merge)
                continue
            try:
                covered = region(flow, [one.place for one in same])
            except CannotTryError:
                continue
            frame = innermost(flow, covered.places)
            widths = "+".join(str(flow.tensor(one.argument(WEIGHT)).dims[1]) for one in same)
            text = f"one linear layer of {widths} outputs in place of {len(same)}, its result split"
            yield Proposal(
                covered, functools.partial(_function, covered, same), Change("advice", frame, text=text), what=widths
            )


def factor(node: Node) -> int:
    """The slot of the first factor of a product."""
    return node.argument("mat1") if node.op == "addmm" else node.argument("self")  # type: ignore[no-any-return]


def is_weight(flow: Flow, node: Node) -> bool:
    """Whether the second factor is a parameter that the step leaves as it is."""
    slot = node.argument(WEIGHT)
    plain = node.op == "mm" or (node.argument("beta") == 1 and node.argument("alpha") == 1)
    return plain and isinstance(slot, Slot) and not flow.writers[flow.storage(slot)] and isinstance(factor(node), Slot)


def _function(covered: Region, nodes: Sequence[Node]) -> Function:
    import torch

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    weights = [order[one.argument(WEIGHT)] for one in nodes]
    biases = [order[one.argument("self")] for one in nodes] if nodes[0].op == "addmm" else []
    widths = [covered.flow.tensor(one.argument(WEIGHT)).dims[1] for one in nodes]
    x, results = order[factor(nodes[0])], [one.call.outputs[0] for one in nodes]
    kept = Kept(lambda some: torch.cat([one.t() for one in some]).t())
    shifts = Kept(torch.cat)

    def call(*tensors: Any) -> list[Any]:
        merged = kept.of([tensors[one] for one in weights])
        if biases:
            made = torch.addmm(shifts.of([tensors[one] for one in biases]), tensors[x], merged)
        else:
            made = tensors[x] @ merged
        parts = dict(zip(results, made.split(widths, 1), strict=True))
        return [parts[slot] for slot in covered.outputs]

    return call
