"""Concatenations: a cache (or an empty one) and new tokens, halves of rotated heads, rotary angles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Dims, Number, Tensor, Tensors, call, numel
from kerneldb.replay.infer.view import Proposal, View, moved, shown
from kerneldb.replay.wire.plan import CallSpec, ChildCall

ELEMENTS: Final = {1: "uint8", 2: "", 4: "fp32", 8: "int64"}
OVER_TOKENS: Final = "-2"
OVER_WIDTH: Final = "-1"


def proposals(view: View) -> Iterator[Proposal]:
    """The concatenations that this kernel may have been."""
    size = view.known.details.get("element_bytes")
    dtype = view.known.dtype or ELEMENTS.get(size if isinstance(size, int) else 2) or view.model.dtype
    grid = grids.cat_elements(view.kind)
    for entries, over, why, fit in _forms(view, dtype):
        largest = max(numel(one.dims) for one in entries)
        if 0 in entries[-1].dims or (grid is not None and not grid.holds(largest)):
            continue
        shown_ = " + ".join(shown(one.dims) for one in entries)
        yield Proposal(_spec(entries, over), f"cat {shown_}: {why}", 2 * moved(*entries), fit)


def _spec(entries: tuple[Tensor, ...], over: str) -> CallSpec:
    """The call, and beside it one that names the dtype of the list, which a recorded `cat` lacks."""
    named = [one for one in entries if numel(one.dims)]
    witness = call("view", named[0]) if named else None
    beside = () if witness is None else (ChildCall(witness, 1, 1),)
    return CallSpec(call("cat", Tensors(entries), Number(over)), neighbours=beside)


def _forms(view: View, dtype: str) -> Iterator[tuple[tuple[Tensor, ...], str, str, float]]:
    scene, model = view.scene, view.model
    heads, width = model.kv_heads, model.head_dim
    old, new = scene.keys - scene.queries, scene.queries
    turned = _rotating(view)
    for first, word, share in _new_tokens(view, dtype, heads, new):
        fit = (0.7 if turned else 1.0) * share
        if old > 0:
            cached = Tensor((scene.batch, heads, old, width), dtype)
            yield (cached, first), OVER_TOKENS, f"the cache and {word}", fit
        else:
            yield (Tensor((0,), dtype), first), OVER_TOKENS, f"an empty cache and {word}", fit
    for count in dict.fromkeys((model.heads, model.kv_heads)):
        yield from _halves(view, dtype, count, 1.0 if turned else 0.7)
    half = (scene.batch, scene.queries, width // 2)
    angles = Tensor(half, dtype, (half[1] * half[2], 1, half[1]))
    yield (angles, angles), OVER_WIDTH, "rotary angles", 1.0 if dtype == "fp32" else 0.4


def _rotating(view: View) -> bool:
    """Whether a negation comes right before: half of the heads, to be rotated."""
    return view.follows("neg")


def _new_tokens(view: View, dtype: str, heads: int, new: int) -> Iterator[tuple[Tensor, str, float]]:
    """New keys or values: in order, transposed, or a view of a fused projection."""
    scene, model = view.scene, view.model
    width, wide = model.head_dim, heads * model.head_dim
    dims: Dims = (scene.batch, heads, new, width)
    fused_model = model.heads == model.kv_heads and not _rotary(view)
    fused = Tensor(dims, dtype, (new * 3 * wide, 3 * width, 3 * wide, 1))
    turned = Tensor(dims, dtype, (new * wide, width, wide, 1))
    plain = Tensor(dims, dtype)
    if fused_model:
        yield fused, "new tokens of a fused projection", 1.0
        yield turned, "new tokens, transposed", 0.9
        yield plain, "new tokens", 0.85
        return
    added = view.follows("add")
    yield plain, "new tokens", 1.0 if added else 0.9
    yield turned, "new tokens, transposed", 0.9 if added else 1.0


def _rotary(view: View) -> bool:
    near = (*view.before, *view.after)
    return any(one.known.operation in {"neg", "add"} and "OnSelf" not in str(one.known.details) for one in near[:4])


def _halves(view: View, dtype: str, heads: int, fit: float) -> Iterator[tuple[tuple[Tensor, ...], str, str, float]]:
    scene, model = view.scene, view.model
    half, wide = model.head_dim // 2, heads * model.head_dim
    dims: Dims = (scene.batch, heads, scene.queries, half)
    sliced = (scene.queries * wide, model.head_dim, wide, 1)
    lead = scene.queries * wide // 2
    first = Tensor(dims, dtype, (lead, half, wide // 2, 1))  # the negated half keeps the order of its input
    yield (first, Tensor(dims, dtype, sliced)), OVER_WIDTH, "halves of heads", fit
    yield (
        (Tensor(dims, dtype), Tensor(dims, dtype, sliced)),
        OVER_WIDTH,
        "halves of heads, the first in order",
        fit * 0.9,
    )
