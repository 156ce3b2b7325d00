"""Norms written by hand, as operators of torch: `rms_norm` and `layer_norm`.

The pattern begins at the reciprocal square root (or the division by the square root) of a mean and an epsilon.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.rewrites.base import Change, Function, Proposal, Rewrite
from kerneldb.replay.rewrites.flow import Flow, Node, Slot
from kerneldb.replay.rewrites.places import innermost
from kerneldb.replay.rewrites.region import CannotTryError, Region, region

ROOTS: Final = frozenset({"rsqrt", "sqrt", "pow"})


@dataclass(slots=True)
class Found:
    """The calls of a norm, what it is of (a slot), its epsilon and how it scales and shifts (slots, if it does)."""

    places: list[int]
    x: int
    eps: float
    weight: int | None = None
    bias: int | None = None
    centred: bool = False


class RmsNorm(Rewrite):
    """`x * rsqrt(mean(x²) + eps) * weight` by `torch.nn.functional.rms_norm`."""

    name = "rms_norm"
    about = "a hand-written RMS norm as torch.nn.functional.rms_norm"
    removes_launches = True
    centred = False

    def find(self, flow: Flow) -> Iterator[Proposal]:
        """One for each norm."""
        for node in flow.nodes:
            if node.op not in ROOTS:
                continue
            found = norm_at(flow, node)
            if found is None or found.centred != self.centred:
                continue
            try:
                covered = region(flow, found.places)
            except CannotTryError:
                continue
            if set(covered.inputs) - {found.x, found.weight, found.bias} or len(covered.outputs) != 1:
                continue  # an intermediate is used elsewhere, such as by a backward pass
            change = Change(self.name, innermost(flow, found.places), {"eps": found.eps})
            yield Proposal(covered, functools.partial(_function, covered, found), change, what=_said(flow, found))


class LayerNorm(RmsNorm):
    """`(x - mean) / sqrt(var + eps) * weight + bias` by `torch.nn.functional.layer_norm`."""

    name = "layer_norm"
    about = "a hand-written layer norm as torch.nn.functional.layer_norm"
    centred = True


def _said(flow: Flow, found: Found) -> str:
    dims = "x".join(map(str, flow.tensor(found.x).dims))
    return f"{dims} {str(flow.player.dtype(found.x)).removeprefix('torch.')}"


def _function(covered: Region, found: Found) -> Function:
    import torch.nn.functional as functions

    order = {slot: number for number, slot in enumerate(covered.inputs)}
    size = covered.flow.tensor(found.x).dims[-1]
    wanted = covered.flow.player.dtype(covered.outputs[0])
    layer = functions.layer_norm if found.centred else functions.rms_norm

    def call(*tensors: Any) -> list[Any]:
        x = tensors[order[found.x]]
        weight, bias = (None if one is None else tensors[order[one]] for one in (found.weight, found.bias))
        named = {"bias": bias} if found.centred else {}
        if weight is not None and weight.dtype != x.dtype:
            made = layer(x, (size,), None, eps=found.eps) * weight
            return [(made if bias is None else made + bias).to(wanted)]
        return [layer(x, (size,), weight, eps=found.eps, **named).to(wanted)]

    return call


def norm_at(flow: Flow, root: Node) -> Found | None:
    """The norm around a square root; None where it is none."""
    if root.op == "pow" and root.argument("exponent") != -0.5:  # noqa: PLR2004 (a reciprocal square root)
        return None
    added = _maker(flow, root, "self")
    if added is None or added.op not in {"add", "add_"} or not isinstance(added.argument("other"), int | float):
        return None
    mean = _maker(flow, added, "self")
    squared = None if mean is None else _mean_of(flow, mean)
    if mean is None or squared is None:
        return None
    squares, between = squared
    x = _squared(squares)
    if x is None:
        return None
    places = [*between, squares.place, added.place, root.place]
    return _scaled(flow, Found(places, x, float(added.argument("other"))), root)


def _maker(flow: Flow, node: Node, name: str) -> Node | None:
    """The call that made an argument."""
    slot = node.argument(name)
    made = flow.source(slot, node.place) if isinstance(slot, Slot) else None
    return made if made is not None and made.op else None


def _mean_of(flow: Flow, mean: Node) -> tuple[Node, list[int]] | None:
    """What a mean over the last dim is of, and its own calls: on a CPU a sum and a division."""
    own = [mean.place]
    if mean.op in {"div_", "div"}:
        inner = _maker(flow, mean, "self")
        if inner is None or inner.op != "sum":
            return None
        own, mean = [inner.place, mean.place], inner
    elif mean.op != "mean":
        return None
    slot = mean.argument("self")
    last = len(flow.tensor(slot).dims) - 1 if isinstance(slot, Slot) else None
    if last is None or mean.argument("dim") not in ([-1], [last]):
        return None
    squares = flow.source(slot, mean.place)
    return None if squares is None else (squares, own)


def _squared(node: Node) -> int | None:
    if node.op == "pow" and node.argument("exponent") == 2:  # noqa: PLR2004 (a square)
        return node.argument("self")  # type: ignore[no-any-return]
    one, other = (node.argument(name) for name in ("self", "other"))
    same = node.op == "mul" and isinstance(one, Slot) and one == other
    return one if same else None


def _scaled(flow: Flow, found: Found, root: Node) -> Found | None:
    """Go on from the root: the product with x, then conversion, weight and bias; before it, mean and conversion."""
    users = [one for one in flow.users(root) if one.op in {"mul", "div"}]
    if len(users) != 1 or (users[0].op == "div") != (root.op == "sqrt"):
        return None
    last = users[0]
    if found.x not in [last.argument(name) for name in ("self", "other")]:
        return None
    found.places.append(last.place)
    last = _further(flow, found, last)
    source = flow.source(found.x, min(found.places))
    if source is not None and source.op == "sub":
        _centre(flow, found, source)
    source = flow.source(found.x, min(found.places))
    inner = source.argument("src") if source is not None and source.op == "copy_" else None
    readers = set() if source is None else {one.place for one in flow.users(source)}
    if source is not None and isinstance(inner, Slot) and readers <= set(found.places):
        found.places.append(source.place)
        found.x = inner
    return found


def _further(flow: Flow, found: Found, last: Node) -> Node:
    """A conversion, and a product and a sum with one dim, as far as nothing else uses what is between."""
    size = flow.tensor(found.x).dims[-1]
    while True:
        users = [one for one in flow.users(last) if one.place not in found.places]
        if len(users) != 1:
            return last
        (after,) = users
        others = [one for one in (after.argument("self"), after.argument("other")) if isinstance(one, Slot)]
        extra = [one for one in others if flow.storage(one) not in flow.writes(last.place)]
        one_dim = len(extra) == 1 and flow.tensor(extra[0]).dims == (size,)
        if (
            after.op == "copy_"
            and flow.result(after) != found.x
            and flow.storage(after.argument("src")) in flow.writes(last.place)
        ):
            kept = flow.tensor(flow.result(after)).dims == flow.tensor(found.x).dims
            if not kept or found.bias is not None:
                return last
        elif after.op == "mul" and one_dim and found.weight is None:
            found.weight = extra[0]
        elif after.op == "add" and one_dim and found.bias is None:
            found.bias = extra[0]
        else:
            return last
        found.places.append(after.place)
        last = after


def _centre(flow: Flow, found: Found, difference: Node) -> None:
    """Take in the subtraction of the mean, where it is that of the same tensor."""
    mean, slot = _maker(flow, difference, "other"), difference.argument("self")
    known = None if mean is None else _mean_of_slot(flow, mean)
    if known is None or not isinstance(slot, Slot) or known[0] != slot:
        return
    found.places += [*known[1], difference.place]
    found.x, found.centred = slot, True


def _mean_of_slot(flow: Flow, mean: Node) -> tuple[int, list[int]] | None:
    inner = _maker(flow, mean, "self") if mean.op in {"div_", "div"} else None
    own = [mean.place] if inner is None else [inner.place, mean.place]
    of = (mean if inner is None else inner).argument("self")
    summed = (mean if inner is None else inner).op in {"mean", "sum"}
    return (of, own) if summed and isinstance(of, Slot) else None
