"""Copies made by kernels: conversions between dtypes, and copies of views into contiguous memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer.calls import Dims, Number, Tensor, contiguous, item_bytes, numel, spec
from kerneldb.replay.infer.pointwise import STRIDED, views
from kerneldb.replay.infer.pool import fitting
from kerneldb.replay.infer.view import Proposal, View, moved, shown

BLOCKING: Final = Number("False")
CONVERSIONS: Final = {"float16_copy": "fp16", "bfloat16_copy": "bf16", "float8_copy": "e4m3"}
HEADED: Final = 4


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
                held, out = Tensor(dims, source), Tensor(dims, target)
                yield _proposal(out, held, f"{name}, {source} to {target}", fit)


def _fitting(view: View) -> Iterator[tuple[Dims, str, float]]:
    """Shapes of the pool, and those that heads have once their tokens stand first."""
    scene, model = view.scene, view.model
    dims = (scene.batch, scene.queries, model.heads, model.head_dim)
    if view.known.family in STRIDED and 0 not in dims and any(span.holds(numel(dims)) for span in view.spans):
        yield dims, "heads of each token", 0.9
    yield from fitting(scene, view.spans)


def _dtypes(view: View) -> tuple[str, tuple[str, ...]]:
    """The dtype written, and those that may be read, the likeliest first."""
    functor = str(view.known.details.get("functor"))
    target = next((dtype for word, dtype in CONVERSIONS.items() if functor.startswith(word)), None)
    if target is not None:
        read = [one for one in view.known.dtypes if one != target]
        return target, tuple(read or ["fp32"])
    target = view.known.dtype or view.model.dtype
    if not view.known.details.get("casts"):
        return target, (target,)
    if target == "fp32":
        return target, (view.model.dtype, "int64", "bool")
    return target, ("fp32", "int64", view.model.dtype)


def _gathered(view: View, dims: Dims, name: str, dtype: str, fit: float) -> Iterator[Proposal]:
    """A contiguous tensor filled from a view of another order."""
    scene, model = view.scene, view.model
    out = Tensor(dims, dtype)
    strides: Dims
    if name == "heads of each token":
        strides = (model.heads * scene.queries * model.head_dim, model.head_dim, scene.queries * model.head_dim, 1)
        share = 1.0 if view.follows("gemm", "gemv", "attention") else 0.92
        yield _proposal(out, Tensor(dims, dtype, strides), f"{name}, from heads that stood first", fit * share)
        return
    for strides, word, share in views(dims, view):
        after = 0.98 if view.follows("gemm", "gemv", "attention") else 1.03
        yield _proposal(out, Tensor(dims, dtype, strides), f"{name}, {word}", fit * share * after)
    yield from _spread(view, dims, name, dtype, fit)


def _spread(view: View, dims: Dims, name: str, dtype: str, fit: float) -> Iterator[Proposal]:
    """A tensor filled by broadcasting: one row for all queries, or one value for all entries."""
    scene, model = view.scene, view.model
    scores = (scene.batch, model.heads, scene.queries, scene.keys)
    if dims == scores and scene.queries > 1:
        flat = (scene.batch * model.heads, scene.queries, scene.keys)
        rows = Tensor(flat, dtype, (scene.keys, 0, 1))
        yield _proposal(Tensor(flat, dtype), rows, "an addend of one row for all queries", fit * 1.05)
    if len(dims) == HEADED and dims[1] not in {1, model.heads}:
        return
    if len(dims) > 1:
        inner = (*contiguous(dims)[:-1], 0)
        yield _proposal(Tensor(dims, dtype), Tensor(dims, dtype, inner), f"{name}, one value per row", fit * 0.7)
        turned = (*dims[:-2], dims[-1], dims[-2])
        strides = (*contiguous(turned)[:-2], contiguous(turned)[-1], contiguous(turned)[-2])
        yield _proposal(Tensor(dims, dtype), Tensor(dims, dtype, strides), f"{name}, transposed", fit * 0.75)
    else:
        yield _proposal(Tensor(dims, dtype), Tensor(dims, dtype, (2,)), f"{name}, every second", fit * 0.6)


def _proposal(out: Tensor, held: Tensor, why: str, fit: float) -> Proposal:
    size = moved(held) + numel(out.dims) * item_bytes(out.dtype)
    return Proposal(spec("copy_", out, held, BLOCKING), f"copy {shown(out.dims)}: {why}", size, fit)
