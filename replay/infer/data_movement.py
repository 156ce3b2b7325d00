"""Operators that move data: copies, concatenations, lookups.

Copies made by kernels: conversions between dtypes, and copies of views into contiguous memory.

Concatenations: a cache (or an empty one) and new tokens, halves of rotated heads, rotary angles.

Lookups: token embeddings, indexing by masks or positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Dims, Tensor, call, spec, tokens_first, transposed
from kerneldb.replay.infer.pointwise import STRIDED, views
from kerneldb.replay.infer.products import VOCABULARIES
from kerneldb.replay.infer.view import Proposal, View, moved, shown
from kerneldb.replay.resolve.tensors import contiguous
from kerneldb.replay.wire.plan import CallSpec, ChildCall

CONVERSIONS: Final = {"float16_copy": "fp16", "bfloat16_copy": "bf16", "float8_copy": "e4m3"}
HEADED: Final = 4
HEADS: Final = "heads of each token"
ELEMENTS: Final = {1: "uint8", 4: "fp32", 8: "int64"}
OVER_WIDTH: Final = "-1"

Form = tuple[tuple[Tensor, ...], str, str, float]
"""The tensors, the dim they are joined over, what they are, and the fit."""


def copies(view: View) -> Iterator[Proposal]:
    """The copies that this kernel may have been."""
    target, sources = _dtypes(view)
    strided = view.known.family in STRIDED
    for dims, name, share in _fitting(view):
        for source in sources:
            fit = share * (0.9 if source != sources[0] else 1.0)
            if strided and source == target:
                yield from _gathered(view, dims, name, target, fit)
            else:
                yield _proposal(Tensor(dims, source), target, f"{name}, {source} to {target}", fit)


def _fitting(view: View) -> Iterator[tuple[Dims, str, float]]:
    """Shapes of the shape pool, and those of heads whose tokens come first."""
    step, model = view.step, view.model
    dims = (step.batch, step.queries, model.heads, model.head_dim)
    if view.known.family in STRIDED and view.fits(*dims):
        yield dims, HEADS, 0.9
    yield from view.shapes()


def _dtypes(view: View) -> tuple[str, tuple[str, ...]]:
    """The dtype written, and those that may be read, the likeliest first."""
    functor = str(view.known.details.get("functor"))
    target = next((dtype for word, dtype in CONVERSIONS.items() if functor.startswith(word)), None)
    if target is not None:
        return target, tuple(one for one in view.known.dtypes if one != target) or ("fp32",)
    target = view.dtype
    if not view.known.details.get("casts"):
        return target, (target,)
    if target == "fp32":
        return target, (view.model.dtype, "int64", "bool")
    return target, ("fp32", "int64", view.model.dtype)


def _gathered(view: View, dims: Dims, name: str, dtype: str, fit: float) -> Iterator[Proposal]:
    """A contiguous tensor filled from a view of another order."""
    after_product = view.follows("gemm", "gemv", "attention")
    if name == HEADS:
        share = 1.0 if after_product else 0.92
        held = Tensor(dims, dtype, tokens_first(dims))
        yield _proposal(held, dtype, f"{name}, from heads that stood first", fit * share)
        return
    for strides, word, share in views(dims, view):
        after = 0.98 if after_product else 1.03
        yield _proposal(Tensor(dims, dtype, strides), dtype, f"{name}, {word}", fit * share * after)
    yield from _spread(view, dims, name, dtype, fit)


def _spread(view: View, dims: Dims, name: str, dtype: str, fit: float) -> Iterator[Proposal]:
    """A tensor filled by broadcasting: one row for all queries, or one value for all entries."""
    step, model = view.step, view.model
    if dims == (step.batch, model.heads, step.queries, step.keys) and step.queries > 1:
        flat = (step.batch * model.heads, step.queries, step.keys)
        rows = Tensor(flat, dtype, (step.keys, 0, 1))
        yield _proposal(rows, dtype, "an addend of one row for all queries", fit * 1.05)
    if len(dims) == HEADED and dims[1] not in {1, model.heads}:
        return
    if len(dims) > 1:
        inner = Tensor(dims, dtype, (*contiguous(dims)[:-1], 0))
        yield _proposal(inner, dtype, f"{name}, one value per row", fit * 0.7)
        yield _proposal(Tensor(dims, dtype, transposed(dims)), dtype, f"{name}, transposed", fit * 0.75)
    else:
        yield _proposal(Tensor(dims, dtype, (2,)), dtype, f"{name}, every second", fit * 0.6)


def _proposal(held: Tensor, dtype: str, why: str, fit: float) -> Proposal:
    """The copy of a tensor into a contiguous one of another dtype, or of the same."""
    out = Tensor(held.dims, dtype)
    return Proposal(spec("copy_", out, held, "False"), f"copy {shown(out.dims)}: {why}", moved(held, out), fit)


def concatenations(view: View) -> Iterator[Proposal]:
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
    step, model = view.step, view.model
    turned = view.follows("neg")  # of half of the heads, to be rotated
    old = step.keys - step.queries
    cached = Tensor((step.batch, model.kv_heads, old, model.head_dim) if old > 0 else (0,), dtype)
    for first, word, share in _new_tokens(view, dtype):
        why = f"{'the cache' if old > 0 else 'an empty cache'} and {word}"
        yield (cached, first), "-2", why, (0.7 if turned else 1.0) * share
    for count in dict.fromkeys((model.heads, model.kv_heads)):
        fit = 1.0 if turned else 0.7
        half, wide = model.head_dim // 2, count * model.head_dim
        dims = (step.batch, count, step.queries, half)
        second = Tensor(dims, dtype, tokens_first((*dims[:-1], model.head_dim)))
        # the negated half keeps the order of its input
        first = Tensor(dims, dtype, (step.queries * wide // 2, half, wide // 2, 1))
        yield (first, second), OVER_WIDTH, "halves of heads", fit
        yield (Tensor(dims, dtype), second), OVER_WIDTH, "halves of heads, the first in order", fit * 0.9
    width = model.head_dim // 2
    angles = Tensor((step.batch, step.queries, width), dtype, (step.queries * width, 1, step.queries))
    yield (angles, angles), OVER_WIDTH, "rotary angles", 1.0 if dtype == "fp32" else 0.4


def _new_tokens(view: View, dtype: str) -> Iterator[tuple[Tensor, str, float]]:
    """New keys or values: in order, transposed, or a view of a fused projection."""
    step, model = view.step, view.model
    dims = (step.batch, model.kv_heads, step.queries, model.head_dim)
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


def lookups(view: View) -> Iterator[Proposal]:
    """The lookups that this kernel may have been."""
    step, model, family = view.step, view.model, view.known.family
    if family in {"index", "index_elementwise"} and view.known.details.get("element_bytes") in {1, None}:
        # A mask of tokens (batch, keys), indexed by sequence and by key, for all queries: what masking code does.
        batch, keys = view.step.batch, view.step.keys
        if view.fits(batch, keys):
            why = f"a mask of {batch}×{keys} tokens, by sequence and key"
            yield Proposal(_indexed(batch, keys), why, 10.0 * batch * keys, 1.0)
    rows = view.kind.grid[0] if family == "vectorized_gather" and view.kind.grid else step.tokens
    for vocab in ((model.vocab,) if model.vocab else VOCABULARIES[:4]) if model.hidden else ():
        table, out = (Tensor((count, model.hidden), view.float_dtype) for count in (vocab, rows))
        why = f"{rows} rows of an embedding of {vocab}×{model.hidden}"
        if family == "vectorized_gather":
            index = Tensor(out.dims, "int64", (1, 0))
            yield Proposal(spec("gather", table, "0", index, "False", out), why, 2 * moved(out), 1.0)
        elif family in {"index_select", "embedding"}:
            yield Proposal(spec("index_select", table, "0", Tensor((rows,), "int64")), why, 2 * moved(out), 1.0)


def _indexed(batch: int, keys: int) -> CallSpec:
    """`mask[sequences, positions]` with the calls below it that tell its indices."""
    mask = Tensor((batch, keys), "bool")
    dims = (batch, 1, 1, keys)
    below = [
        call("as_strided", mask, dims, (0, 0, 0, 0), None),
        call("reshape", Tensor(dims, "int64", (1, 1, 1, 0)), dims),
        call("reshape", Tensor(dims, "int64", (0, keys, keys, 1)), dims),
    ]
    return CallSpec(call("index", mask, None), tuple(ChildCall(one, 1, 1) for one in below))
