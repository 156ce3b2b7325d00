"""Elementwise operators: which one the functor is, and operands of the shapes that the grid allows.

`vectorized_elementwise_kernel` has contiguous operands of one shape. `elementwise_kernel` has some that are broadcast,
transposed or sliced: the usual ones of a transformer are proposed, most likely first.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Argument, Dims, Tensor, item_bytes, spec, tokens_first
from kerneldb.replay.infer.view import Proposal, View, moved, shown

BINARY: Final = frozenset({
    "add", "sub", "mul", "div", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "eq", "ne", "le",
    "lt", "ge", "gt", "compare", "logical_and", "logical_or", "atan2", "fmod", "remainder", "silu_backward",
    "gelu_backward", "tanh_backward", "sigmoid_backward", "threshold",
})  # fmt: skip
COMPARISONS: Final = ("le", "lt", "eq", "ge", "gt", "ne")
UNARY: Final[dict[str, tuple[Argument, ...]]] = {"gelu": (None,), "clamp": ("-1.", "1.")}
"""Arguments after the tensor."""
ALPHA: Final = frozenset({"add", "sub"})
BINARY_TENSORS: Final = 3
INT_RANGE: Final = re.compile(r"arange_cuda_out\(.*?\{lambda\(\)#1\}.*?\{lambda\(\)#3\}")
STRIDED: Final = frozenset({"elementwise", "elementwise_manual_unroll", "legacy_elementwise"})
INTEGERS: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})

Pair = tuple[Tensor, Tensor, str, float]
"""Two operands, what they are, and the fit."""


def proposals(view: View) -> Iterator[Proposal]:
    """The elementwise calls that this kernel may have been."""
    operation = view.known.operation or ""
    if operation == "arange":
        yield from _ranges(view)
    elif operation == "fill":
        yield from _fills(view)
    elif operation == "where":
        yield from _choices(view)
    elif operation == "pow" and "tensor_tensor" in str(view.known.details.get("functor")):
        yield from _powers(view)
    elif _binary(view, operation):
        dtype = _dtype(view)
        names = COMPARISONS if operation == "compare" else (operation,)
        strided = view.known.family in STRIDED
        alpha = ("1",) if operation in ALPHA else ()
        for left, right, why, fit in (*_broadcast(view, dtype, strided=strided), *_equal(view, dtype, strided=strided)):
            out = max(prod(left.dims), prod(right.dims))
            size = moved(left, right) + out * (1 if names is COMPARISONS else item_bytes(dtype))
            for rank, name in enumerate(names[:2]):
                yield Proposal(spec(name, left, right, *alpha), f"{name}: {why}", size, fit * 0.95**rank)
    else:
        dtype = _dtype(view)
        for held, name, fit in _operands(view, dtype):
            size = moved(held, Tensor(held.dims, dtype))
            for op, rest, share in _unary(view, operation, dtype):
                yield Proposal(spec(op, held, *rest), f"{op} of {shown(held.dims)}: {name}", size, fit * share)


def _binary(view: View, operation: str) -> bool:
    details, count = view.known.details, grids.tensors(view.kind)
    if details.get("scalar_operand") or "OnSelf" in str(details.get("functor")):
        return False
    return count == BINARY_TENSORS if count is not None else operation in BINARY


def _dtype(view: View) -> str:
    return "fp32" if view.dtype == "tf32" else view.dtype


def _unary(view: View, operation: str, dtype: str) -> Iterator[tuple[str, tuple[Argument, ...], float]]:
    """Operators with one tensor, and their further arguments."""
    number = Tensor((), "int64" if dtype in INTEGERS else "fp64")  # how a Python number is recorded
    scalar = view.known.details.get("scalar_operand")
    if operation in ALPHA:
        yield "add", (number, "1"), 1.0
        yield "sub", (number, "1"), 0.9
    elif scalar == "b" and operation == "mul":
        yield "div", (number,), 1.0
        yield "mul", (number,), 0.9
    elif scalar or operation in {"mul", "div"}:
        yield operation, (number,), 1.0
        yield "div", (number,), 0.8
    elif operation == "pow":
        yield "pow", ("2",), 1.0
        yield "pow", ("3",), 0.9
    elif operation == "compare" or operation in COMPARISONS:
        names = COMPARISONS if operation == "compare" else (operation,)
        yield from ((name, ("0",), 0.95**rank) for rank, name in enumerate(names))
    else:
        yield operation, UNARY.get(operation, ()), 1.0


def _operands(view: View, dtype: str) -> Iterator[tuple[Tensor, str, float]]:
    """Single operands: contiguous ones, or views where the kernel takes strides."""
    strided = view.known.family in STRIDED
    for dims, name, fit in view.shapes():
        for strides, word, share in views(dims, view) if strided else ():
            yield Tensor(dims, dtype, strides), f"{name}, {word}", fit * share
        yield Tensor(dims, dtype), name, fit * (0.8 if strided else 1.0)


def views(dims: Dims, view: View) -> Iterator[tuple[Dims, str, float]]:
    """Strides that a tensor of heads may have: slices and transposes of projections."""
    model = view.model
    if len(dims) != 4:  # noqa: PLR2004 (batch, heads, tokens, dims)
        return
    _, heads, length, width = dims
    if model.head_dim and width in {model.head_dim, model.head_dim // 2} and heads in {model.heads, model.kv_heads}:
        whole = (*dims[:-1], model.head_dim)
        after = view.follows("cat", "mul", "add") or not view.before
        word = "half of heads" if width != model.head_dim else "heads"
        yield tokens_first(whole), f"{word}, transposed", 0.95 if after else 1.0
        yield (heads * length * model.head_dim, length * model.head_dim, model.head_dim, 1), f"{word}, in order", 0.9
        if model.heads == model.kv_heads:
            yield tokens_first(whole, 3), f"{word} of a fused projection", 0.85


def _equal(view: View, dtype: str, *, strided: bool) -> Iterator[Pair]:
    for dims, name, share in view.shapes():
        fit, whole = share * (0.7 if strided else 1.0), Tensor(dims, dtype)
        yield whole, whole, f"two of {shown(dims)} ({name})", fit
        if dims == (1, 1, view.model.hidden):
            likely = 1.03 if view.follows("copy") and view.known.operation == "mul" else 0.9
            yield Tensor(dims[2:], dtype), whole, f"a scale on {shown(dims)} ({name})", fit * likely


def _broadcast(view: View, dtype: str, *, strided: bool) -> Iterator[Pair]:
    """Operands of two shapes, or with other strides, in the forms that transformers have."""
    model, batch, queries, keys = view.model, view.step.batch, view.step.queries, view.step.keys
    if not strided:
        if view.fits(batch, model.heads, queries, model.head_dim) and queries == 1:
            dims = (view.step.batch, view.model.heads, 1, view.model.head_dim)
            share = 1.1 if view.follows("mul") and view.known.operation in ALPHA else 0.8
            turned = Tensor(dims, dtype, tokens_first(dims))
            yield (turned, Tensor(dims, dtype), "rotary: heads and turned heads of one token", 0.85 * share)
        return
    if view.fits(batch, model.heads, queries, keys):
        scores = Tensor((batch, model.heads, queries, keys), dtype)
        yield scores, Tensor((batch, 1, queries, keys), dtype), "attention scores and a mask", 1.0
        yield scores, Tensor((1, 1, queries, keys), dtype), "attention scores and one mask", 0.9
    for heads in dict.fromkeys((model.heads, model.kv_heads)):
        if view.fits(batch, heads, queries, model.head_dim) and view.known.operation in {*ALPHA, "mul"}:
            yield from _rotations(view, dtype, heads)
    if view.fits(batch, queries, model.hidden):
        whole = Tensor((batch, queries, model.hidden), dtype)
        norm = view.follows("copy") and view.known.dtype in {"fp16", "bf16"}
        yield Tensor((model.hidden,), dtype), whole, "a scale on hidden states", 1.0 if norm else 0.85
        first = 1.05 if dtype == "fp32" else 0.8
        yield whole, Tensor((batch, queries, 1), dtype), "hidden states and one number per token", first
    yield from _small(view, dtype)


def _small(view: View, dtype: str) -> Iterator[Pair]:
    model, batch, queries, keys = view.model, view.step.batch, view.step.queries, view.step.keys
    if view.fits(model.heads, batch, keys):
        yield Tensor((model.heads, 1), dtype), Tensor((batch, 1, keys), dtype), "slopes and positions", 1.0
    mask = Tensor((1, 1, queries, keys), dtype)
    if view.fits(queries, keys):
        row, column = Tensor((1, 1, 1, keys), dtype), Tensor((1, 1, queries, 1), dtype)
        yield row, column, "positions of keys and of queries", 0.95
        yield Tensor((), dtype), mask, "one value and a mask", 0.9
    if view.fits(batch, queries, keys):
        yield mask, Tensor((batch, 1, 1, keys), dtype, (keys, keys, keys, 1)), "a mask and padding", 0.95


def _rotations(view: View, dtype: str, heads: int) -> Iterator[Pair]:
    """Rotary embeddings: heads by angles, and the sum of both parts."""
    batch, queries, width = view.step.batch, view.step.queries, view.model.head_dim
    dims = (batch, heads, queries, width)
    turned, plain = Tensor(dims, dtype, tokens_first(dims)), Tensor(dims, dtype)
    if view.known.operation in ALPHA:
        yield turned, plain, "rotary: heads and turned heads", 1.0
        return
    after_cat, weight = view.follows("cat"), view.follows("copy")
    for rank, size in enumerate(dict.fromkeys((batch, 1))):
        angle = Tensor((size, 1, queries, width), dtype)
        share = 0.95**rank * (0.85 if weight else 1.0)
        yield turned, angle, "rotary: heads and angles", (0.85 if after_cat else 1.0) * share
        yield plain, angle, "rotary: turned heads and angles", (1.0 if after_cat else 0.9) * share


def _fills(view: View) -> Iterator[Proposal]:
    dtype = _dtype(view)
    value = "0" if dtype in INTEGERS else "0."
    for dims, name, fit in view.shapes():
        held = Tensor(dims, dtype)
        yield Proposal(spec("fill_", held, value), f"fill {shown(dims)}: {name}", moved(held), fit)
    if view.fits():
        yield Proposal(spec("fill_", Tensor((), dtype), value), "fill one value", 8.0, 0.92)


def _ranges(view: View) -> Iterator[Proposal]:
    """Sequences of numbers: `arange_cuda_out` dispatches int before long, and its name counts the dispatches."""
    step = view.step
    dtypes = ("int32", "int64") if INT_RANGE.search(view.kind.name) else (_dtype(view),)
    for span in view.spans:
        lengths = dict.fromkeys((step.queries, step.keys, step.batch, view.model.heads, span.most))
        for (rank, length), dtype in itertools.product(enumerate(filter(span.holds, lengths)), dtypes):
            made = spec("arange", "0", str(length), "1", Tensor((0,), dtype, (1,)))
            fit = 0.9 * 0.97**rank * (1.0 if dtype == dtypes[0] else 0.8)
            yield Proposal(made, f"arange of {length}", length * item_bytes(dtype), fit)


def _powers(view: View) -> Iterator[Proposal]:
    """Powers of one base, as slopes of attention heads have them, and of as many bases."""
    dtype = _dtype(view)
    for dims, name, fit in view.shapes():
        likely = 1.1 if dims == (view.model.heads,) else fit
        for base, kind in ((Tensor((), dtype), "int32"), (Tensor((), dtype), dtype), (Tensor(dims, dtype), dtype)):
            size = moved(base) + 2 * prod(dims) * item_bytes(kind)
            why = f"powers of {'one base' if base.dims == () else 'as many bases'}: {shown(dims)} ({name})"
            share = likely * (1.0 if kind == "int32" else 0.9)
            yield Proposal(spec("pow", base, Tensor(dims, kind)), why, size, share)


def _choices(view: View) -> Iterator[Proposal]:
    dtype = next((one for one in view.known.dtypes if one != "bool"), view.model.dtype)
    for dims, name, fit in view.shapes():
        mask, single = Tensor(dims, "bool"), Tensor((), dtype)
        size = moved(mask, Tensor(dims, dtype))
        yield Proposal(spec("where", mask, single, single), f"where on {shown(dims)}: {name}", size, fit)
