"""Operators that move data or work row by row: copies, concatenations, lookups; softmax, norms, reductions, sums.

Copies made by kernels: conversions between dtypes, and copies of views into contiguous memory.

Concatenations: a cache (or an empty one) and new tokens, halves of rotated heads, rotary angles.

Lookups: token embeddings, indexing by masks or positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Argument, Dims, Tensor, call, spec, tokens_first, transposed
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


EPSILON: Final = "1.0000000000000001e-05"
LAST: Final = "-1"
HARDLY: Final = 0.4
TO_FLOAT: Final = "fp32"
REDUCERS: Final[dict[str, tuple[str, tuple[Argument, ...]]]] = {
    **{name: (name, (LAST, "False")) for name in ("argmax", "argmin", "all", "any")},
    **{name: (name, ((-1,), "True", None)) for name in ("mean", "sum")},
    **{name: (f"a{name}", ((-1,), "True")) for name in ("max", "min")},
    "norm": ("linalg_vector_norm", ("2", (-1,), "True", None)),
}
"""The operators of reductions, with the arguments after the tensor."""


def _widths(view: View) -> list[tuple[int, str]]:
    """Row lengths that the model has."""
    step, model = view.step, view.model
    named = [
        (model.hidden, "hidden"), (step.keys, "keys"), (model.vocab, "vocabulary"),
        (model.ffn, f"feed-forward{model.assumed}"), (model.head_dim, "head"), (step.queries, "tokens"),
        *((one, "a width seen") for one in model.widths),
    ]  # fmt: skip
    if not model.vocab:
        named += [(one, "a common vocabulary") for one in VOCABULARIES]
    return list({one: (one, name) for one, name in reversed(named) if one}.values())[::-1]


def softmax(view: View) -> Iterator[Proposal]:
    """The softmaxes that this kernel may have been."""
    step, model, found = view.step, view.model, grids.rows(view.kind)
    out = view.known.dtypes[1] if len(view.known.dtypes) > 1 else view.dtype
    log2 = view.known.details.get("log2_elements")
    if found is None:
        return
    dims: list[tuple[Dims, str, float]] = [((found.most, width), name, 0.7) for width, name in _widths(view)]
    scores = (step.batch, model.heads, step.queries, step.keys)
    if 0 not in scores and found.holds(prod(scores[:-1])):
        dims.insert(0, (scores, "attention scores", 1.0))
    into_float = out == TO_FLOAT and "float, float" in view.kind.name
    for shape, name, fit in dims:
        if isinstance(log2, int) and not (1 << log2 >> 1) < shape[-1] <= 1 << log2:
            continue
        held = Tensor(shape, view.dtype)
        for convert, share in ((into_float, 1.0), (not into_float, 0.8)):
            size = moved(held, Tensor(shape, TO_FLOAT if convert else view.dtype))
            made = spec("_softmax", held, LAST, str(convert))
            yield Proposal(made, f"softmax of {shown(shape)}: {name}", size, fit * share)


def norm(view: View) -> Iterator[Proposal]:
    """The normalisations that this kernel may have been."""
    found, step = grids.rows(view.kind), view.step
    if found is None:
        return
    for rank, (width, name) in enumerate(_widths(view)):
        if width == 1:
            continue
        tokens = (step.batch, step.queries) if found.most == step.tokens else (found.most,)
        held, scale = Tensor((*tokens, width), view.dtype), Tensor((width,), view.dtype)
        fit = 0.98**rank if name in {"hidden", "a width seen"} else HARDLY
        if view.known.operation == "rms_norm":
            made = spec("_fused_rms_norm", held, (width,), scale, EPSILON)
        else:
            made = spec("native_layer_norm", held, (width,), scale, scale, EPSILON)
        yield Proposal(made, f"norm of {shown(held.dims)}: {name}", 2 * moved(held), fit)


def reduction(view: View) -> Iterator[Proposal]:
    """The reductions that this kernel may have been."""
    found, step, operation = grids.rows(view.kind), view.step, view.known.operation or "sum"
    if found is None:
        return
    usual = dict.fromkeys(((step.batch, step.queries), (step.batch, 1)))
    rows: list[tuple[Dims, float]] = [(dims, 1.0) for dims in usual if found.holds(prod(dims))]
    op, rest = REDUCERS.get(operation, (operation, ()))
    share, likely = 1.0 if operation in REDUCERS else 0.5, "vocabulary" if op.startswith("arg") else "hidden"
    rows = rows or [((found.most,), 0.8)]
    for (lead, fit), (rank, (width, name)) in itertools.product(rows, enumerate(_widths(view))):
        held = Tensor((*lead, width), view.dtype)
        why = f"{op} over {width} ({name}) of {shown(lead)}"
        strength = fit * share * 0.98**rank * (1 if likely in name else HARDLY)
        yield Proposal(spec(op, held, *rest), why, moved(held), strength)


def cumulative(view: View) -> Iterator[Proposal]:
    """The cumulative sums that this kernel may have been; other scans and sorts have no rule."""
    batch, lengths = view.step.batch, dict.fromkeys((view.step.keys, view.step.queries))
    for rank, length in enumerate(lengths if view.known.operation == "cumsum" else ()):
        dims = (batch, length)
        held = Tensor(dims, view.dtype)
        yield Proposal(spec("cumsum", held, LAST, None), f"cumsum of {shown(dims)}", 2 * moved(held), 0.9**rank)
