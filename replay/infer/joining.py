"""Concatenations: a cache (or an empty one) and new tokens, halves of rotated heads, rotary angles."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Tensor, call, tokens_first
from kerneldb.replay.infer.view import Proposal, View, moved, shown
from kerneldb.replay.wire.plan import CallSpec, ChildCall

ELEMENTS: Final = {1: "uint8", 4: "fp32", 8: "int64"}
OVER_TOKENS: Final = "-2"
OVER_WIDTH: Final = "-1"

Form = tuple[tuple[Tensor, ...], str, str, float]
"""The tensors, the dim they are joined over, what they are, and the fit."""


def proposals(view: View) -> Iterator[Proposal]:
    """The concatenations that this kernel may have been."""
    size = view.known.details.get("element_bytes")
    dtype = view.known.dtype or ELEMENTS.get(size if isinstance(size, int) else 2) or view.model.dtype
    grid = grids.cat_elements(view.kind)
    for entries, over, why, fit in _forms(view, dtype):
        largest = max(prod(one.dims) for one in entries)
        if 0 in entries[-1].dims or (grid is not None and not grid.holds(largest)):
            continue
        whole = f"cat {' + '.join(shown(one.dims) for one in entries)}: {why}"
        yield Proposal(_spec(entries, over), whole, 2 * moved(*entries), fit)


def _spec(entries: tuple[Tensor, ...], over: str) -> CallSpec:
    """The call, and beside it one that names the dtype of the list, which a recorded `cat` lacks."""
    named = [one for one in entries if prod(one.dims)]
    return CallSpec(call("cat", entries, over), neighbours=tuple(ChildCall(call("view", one)) for one in named[:1]))


def _forms(view: View, dtype: str) -> Iterator[Form]:
    scene, model = view.scene, view.model
    turned = view.follows("neg")  # of half of the heads, to be rotated
    old = scene.keys - scene.queries
    cached = Tensor((scene.batch, model.kv_heads, old, model.head_dim) if old > 0 else (0,), dtype)
    for first, word, share in _new_tokens(view, dtype):
        why = f"{'the cache' if old > 0 else 'an empty cache'} and {word}"
        yield (cached, first), OVER_TOKENS, why, (0.7 if turned else 1.0) * share
    for count in dict.fromkeys((model.heads, model.kv_heads)):
        yield from _halves(view, dtype, count, 1.0 if turned else 0.7)
    half = (scene.batch, scene.queries, model.head_dim // 2)
    angles = Tensor(half, dtype, (half[1] * half[2], 1, half[1]))
    yield (angles, angles), OVER_WIDTH, "rotary angles", 1.0 if dtype == "fp32" else 0.4


def _new_tokens(view: View, dtype: str) -> Iterator[tuple[Tensor, str, float]]:
    """New keys or values: in order, transposed, or a view of a fused projection."""
    scene, model = view.scene, view.model
    dims = (scene.batch, model.kv_heads, scene.queries, model.head_dim)
    turned, plain = Tensor(dims, dtype, tokens_first(dims)), Tensor(dims, dtype)
    near = [one.known for one in (*view.before, *view.after)[:4]]
    rotary = any(one.operation in {"neg", "add"} and "OnSelf" not in str(one.details) for one in near)
    if model.heads == model.kv_heads and not rotary:
        yield Tensor(dims, dtype, tokens_first(dims, 3)), "new tokens of a fused projection", 1.0
        yield turned, "new tokens, transposed", 0.9
        yield plain, "new tokens", 0.85
        return
    added = view.follows("add")
    yield plain, "new tokens", 1.0 if added else 0.9
    yield turned, "new tokens, transposed", 0.9 if added else 1.0


def _halves(view: View, dtype: str, heads: int, fit: float) -> Iterator[Form]:
    scene, model = view.scene, view.model
    half, wide = model.head_dim // 2, heads * model.head_dim
    dims = (scene.batch, heads, scene.queries, half)
    second = Tensor(dims, dtype, tokens_first((*dims[:-1], model.head_dim)))
    # the negated half keeps the order of its input
    first = Tensor(dims, dtype, (scene.queries * wide // 2, half, wide // 2, 1))
    yield (first, second), OVER_WIDTH, "halves of heads", fit
    yield (Tensor(dims, dtype), second), OVER_WIDTH, "halves of heads, the first in order", fit * 0.9
