"""Attention written by hand (product, scale, mask, softmax, product) as `scaled_dot_product_attention`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kerneldb.replay.errors import FAILURES
from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.region import CannotTryError, Region, graph, region

PRODUCT = "bmm"
VERY_LOW = -1e4
BOTH = 2


@dataclass(slots=True)
class Found:
    """The calls of an attention: query, transposed key and value as batched matrices, mask, scale, dims of scores."""

    places: list[int]
    query: int = -1
    key: int = -1
    value: int = -1
    mask: int | None = None
    hides: bool = False
    causal: bool = False
    scale: float = 1.0
    heads: tuple[int, ...] = field(default_factory=tuple)


class Attention(Rewrite):
    """Batched product, scale, mask, softmax and batched product by one fused operator."""

    name = "attention"
    about = "hand-written attention as torch.nn.functional.scaled_dot_product_attention"
    removes_launches = True
    compiler_misses = True

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each softmax over the last dim between two batched products."""
        for node in flow.nodes:
            found = _at(flow, node) if node.op in {"_softmax", "softmax"} else None
            if found is None:
                continue
            found.query, found.key, found.value = (
                _before_copy(flow, found, slot) for slot in (found.query, found.key, found.value)
            )
            try:
                covered = region(flow, found.places)
            except CannotTryError:
                continue
            known = {found.query, found.key, found.value, found.mask}
            if set(covered.inputs) - known or len(covered.outputs) != 1:
                continue  # the weights are used elsewhere, such as by a backward pass
            found.causal = _causal(flow, found)
            values = {"scale": found.scale, "causal": found.causal}
            change = Change(self.name, innermost(flow, found.places), values)
            yield Proposal(covered, functools.partial(_function, covered, found), change, what=_said(flow, found))


def _said(flow: Flow, found: Found) -> str:
    (batch, heads, queries, keys), size = found.heads, flow.tensor(found.query).dims[-1]
    return f"batch {batch}, {heads} heads of {size}, {queries} queries, {keys} keys"


def _at(flow: Flow, softmax: Node) -> Found | None:
    source = softmax.argument("self")
    if not isinstance(source, Slot):
        return None
    dims = flow.tensor(source).dims
    if softmax.argument("dim") not in {-1, len(dims) - 1}:
        return None
    found = Found([softmax.place], heads=(1,) * (4 - len(dims)) + dims)
    if len(found.heads) != 4:  # noqa: PLR2004 (batch, heads, queries, keys)
        return None
    return found if _scores(flow, found, softmax) and _output(flow, found, softmax) else None


def _scores(flow: Flow, found: Found, node: Node) -> bool:
    """Go back from the softmax to the product of query and key."""
    while True:
        slot = node.argument("src") if node.op == "copy_" else node.argument("self")
        if node.op == "add" and node.place != found.places[0]:
            slot = _masked(found, node)
        before = flow.source(slot, node.place) if isinstance(slot, Slot) else None
        if before is None:
            return False
        found.places.append(before.place)
        if before.op == PRODUCT:
            found.query, found.key = before.argument("self"), before.argument("mat2")
            return True
        if not _between(flow, found, before):
            return False
        node = before


def _masked(found: Found, node: Node) -> Any:
    """The scores of a sum with a mask: the one that a call of the step made of the product."""
    one, other = node.argument("self"), node.argument("other")
    if found.mask == other:
        return one
    return other if isinstance(other, Slot) else None


def _between(flow: Flow, found: Found, node: Node) -> bool:
    """Whether a call is a part of attention between the product and the softmax; takes note of scale and mask."""
    other = node.argument("other")
    if node.op == "copy_":
        return True
    if node.op in {"mul", "mul_", "div", "div_"}:
        if found.mask is not None and found.scale != 1:
            return False
        number = _number(flow, node, other)
        if number:
            found.scale *= number if node.op.startswith("mul") else 1 / number
        return bool(number)
    if found.mask is not None:
        return False
    if node.op in {"add", "add_"} and isinstance(other, Slot) and node.argument("alpha") in {1, None}:
        found.mask = other
        return True
    if node.op in {"masked_fill", "masked_fill_"} and isinstance(node.argument("mask"), Slot):
        value = node.argument("value")
        found.mask, found.hides = node.argument("mask"), True
        return isinstance(value, int | float) and value <= -1e4  # noqa: PLR2004 (as low as float16 goes, about)
    return False


def _number(flow: Flow, node: Node, other: Any) -> float:
    """A plain number that scores are multiplied with; 0 where it is none."""
    del flow, node
    return float(other) if isinstance(other, int | float) and not isinstance(other, Slot) else 0.0


def _output(flow: Flow, found: Found, node: Node) -> bool:
    """Go on from the softmax to the product with the values, and a copy that orders the heads anew."""
    while True:
        users = flow.users(node)
        if len(users) != 1:
            return False
        (node,) = users
        found.places.append(node.place)
        if node.op == PRODUCT:
            break
        if node.op != "copy_":
            return False
    found.value = node.argument("mat2")
    after = flow.users(node)
    if len(after) == 1 and after[0].op == "copy_" and _same_elements(flow, node, after[0]):
        found.places.append(after[0].place)
    return isinstance(found.value, Slot)


def _before_copy(flow: Flow, found: Found, slot: int) -> int:
    """What was copied for a product alone, of the same elements: the operator takes it as it lies."""
    source = flow.source(slot, max(found.places)) if isinstance(slot, Slot) else None
    if source is None or source.op != "copy_" or {one.place for one in flow.users(source)} - set(found.places):
        return slot
    copied = source.argument("src")
    if not isinstance(copied, Slot) or flow.player.dtype(copied) != flow.player.dtype(slot):
        return slot
    if math.prod(flow.tensor(copied).dims) != math.prod(flow.tensor(slot).dims):
        return slot
    found.places.append(source.place)
    return copied


def _same_elements(flow: Flow, node: Node, copy: Node) -> bool:
    size = [math.prod(flow.tensor(flow.result(one)).dims) for one in (node, copy)]
    return size[0] == size[1] and flow.player.dtype(flow.result(node)) == flow.player.dtype(flow.result(copy))


def _causal(flow: Flow, found: Found) -> bool:
    """Whether the mask hides just what comes later, whatever the step is given: it is computed from nothing."""
    import torch

    if found.mask is None or found.heads[2] != found.heads[3]:
        return False
    places = flow.from_nothing(found.mask)
    if not places:
        return False
    try:
        covered = region(flow, sorted(places))
        (mask,) = graph(covered)()
    except (*FAILURES, CannotTryError):
        return False
    later = torch.ones(found.heads[2:], dtype=torch.bool, device=mask.device).triu(1)
    hidden = mask if found.hides else mask < VERY_LOW
    rest = not found.hides and bool((mask[~hidden] != 0).any())
    return not rest and mask.numel() == later.numel() and bool((hidden.view_as(later) == later).all())


def _function(covered: Region, found: Found) -> Function:
    import torch
    import torch.nn.functional as functions

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    at_query, at_key, at_value = order[found.query], order[found.key], order[found.value]
    at_mask = None if found.mask is None or found.causal else order[found.mask]
    batch, heads, queries, keys = found.heads
    hides, causal, scale = found.hides, found.causal, found.scale
    wanted = covered.flow.tensor(covered.outputs[0]).dims
    swapped = len(wanted) == 4 and wanted[1:3] == (queries, heads) and heads != queries  # noqa: PLR2004

    def call(*tensors: Any) -> list[Any]:  # plain values only: a compiler looks into it
        query = tensors[at_query].reshape(batch, heads, queries, -1)
        key = tensors[at_key].transpose(-1, -2).reshape(batch, heads, keys, -1)
        key = key if key.stride(-1) == 1 else key.contiguous()
        value = tensors[at_value].reshape(batch, heads, keys, -1)
        mask = None if at_mask is None else tensors[at_mask]
        if mask is not None:
            mask = mask.logical_not() if hides else mask.to(query.dtype)
            mask = mask.expand(torch.broadcast_shapes(mask.shape, (1, 1, queries, keys)))
        made = functions.scaled_dot_product_attention(query, key, value, mask, is_causal=causal, scale=scale)
        return [made.transpose(1, 2) if swapped else made.reshape(wanted)]

    return call
