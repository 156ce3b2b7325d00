"""Copies made by kernels: conversions between dtypes, and copies of views into contiguous memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.calls import Dims, Tensor, spec, tokens_first, transposed
from kerneldb.replay.infer.pointwise import STRIDED, views
from kerneldb.replay.infer.view import Proposal, View, moved, shown
from kerneldb.replay.resolve.tensors import contiguous

CONVERSIONS: Final = {"float16_copy": "fp16", "bfloat16_copy": "bf16", "float8_copy": "e4m3"}
HEADED: Final = 4
HEADS: Final = "heads of each token"


def proposals(view: View) -> Iterator[Proposal]:
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
    """Shapes of the pool, and those that heads have once their tokens stand first."""
    scene, model = view.scene, view.model
    dims = (scene.batch, scene.queries, model.heads, model.head_dim)
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
    scene, model = view.scene, view.model
    if dims == (scene.batch, model.heads, scene.queries, scene.keys) and scene.queries > 1:
        flat = (scene.batch * model.heads, scene.queries, scene.keys)
        rows = Tensor(flat, dtype, (scene.keys, 0, 1))
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
