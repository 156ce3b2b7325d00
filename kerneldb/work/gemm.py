"""Matrix products: M, N, K, FLOPs and bytes of the operators that end in a GEMM or GEMV kernel.

Sizes are torch's row-major ones, `out[batch, M, N] = A[batch, M, K] @ B[batch, K, N]`, whatever order cuBLAS or
Tensile sees. FLOPs are `2 * batch * M * N * K`, a multiply-add as two (torch `torch/utils/flop_counter.py`: mm_flop,
bmm_flop; NVIDIA "Matrix Multiplication Background User's Guide"); a bias or an epilogue adds nothing. `aten::einsum`
has no model: the trace does not hold its equation, and the `bmm` inside it is recorded by itself. Bytes are A + B +
bias + out, with the addend read only where beta is not 0. `numel` is the number of output elements.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import model
from kerneldb.work.tensors import SCALAR_TYPES, Tensor, bytes_of, total

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldb.work.tensors import Call, Dims

# Split-K sums, separate epilogues, scaling and conversion passes.
_HELPERS = re.compile(r"reduc|epilogue|_aux|scal_kernel|post_?gsu|conver|helper")
_model = functools.partial(model, categories=("GEMM", "GEMV"), helpers=_HELPERS)
_MATRIX = 2
_BATCHED = 3

Sizes = tuple[int, int, int, int]


def _product(sizes: Sizes | None, read: list[Tensor | None], out: str | None) -> Problem | None:
    """The problem of (batch, M, N, K); `read` are the inputs, `out` the output dtype."""
    if sizes is None:
        return None
    batch, m, n, k = sizes
    moved = total([*(tensor.stored_bytes if tensor else None for tensor in read), bytes_of(batch * m * n, out)])
    return Problem(m, n, k, batch, batch * m * n, "op", 2.0 * batch * m * n * k, moved, "gemm 2mnk")


def _matrices(a: Tensor | None, b: Tensor | None, rank: int = _MATRIX) -> Sizes | None:
    """(batch, M, N, K) of two matrices or two stacks of matrices, or None where they do not fit.

    K is the logical length: a packed fp4 byte holds two numbers.
    """
    if a is None or b is None or len(a.dims) != rank or len(b.dims) != rank:
        return None
    if a.dims[-1] != b.dims[-2] or a.dims[:-2] != b.dims[:-2]:
        return None
    depth = a.dims[-1] * (2 if a.dtype == "fp4x2" else 1)
    return math.prod(a.dims[:-2]), a.dims[-2], b.dims[-1], depth


def _addend(call: Call) -> list[Tensor | None]:
    """The bias or addend of `addmm` and its kin, unless beta (argument 3) is 0 and it is not read."""
    return [] if call.number(3) == 0 else [call.tensor(0)]


def _dtype(tensor: Tensor | None) -> str | None:
    return tensor.dtype if tensor else None


@_model("mm", "bmm", "_int_mm")
def mm(call: Call) -> Problem | None:
    """`mm(A, B)`, `bmm(A, B)`, and `_int_mm(A, B)` of int8 inputs, whose operations count like floating-point ones."""
    a, b = call.tensor(0), call.tensor(1)
    sizes = _matrices(a, b, _BATCHED if call.op == "aten::bmm" else _MATRIX)
    return _product(sizes, [a, b], "int32" if call.op == "aten::_int_mm" else _dtype(call.tensor(2) or a))


@_model("addmm", "addmm_", "_addmm_activation", "baddbmm", "baddbmm_")
def addmm(call: Call) -> Problem | None:
    """`addmm(bias, A, B, beta, alpha)` and `baddbmm`."""
    a, b = call.tensor(1), call.tensor(2)
    sizes = _matrices(a, b, _BATCHED if "baddbmm" in call.op else _MATRIX)
    return _product(sizes, [*_addend(call), a, b], _dtype(a))


@_model("addbmm", "addbmm_")
def addbmm(call: Call) -> Problem | None:
    """`addbmm(addend, A, B)` sums the products of a batch, one GEMM launch each: known for a batch of one only."""
    a, b = call.tensor(1), call.tensor(2)
    sizes = _matrices(a, b, _BATCHED)
    return _product(sizes if sizes and sizes[0] == 1 else None, [*_addend(call), a, b], _dtype(a))


@_model("linear")
def linear(call: Call) -> Problem | None:
    """`linear(X[..., K], W[N, K], bias[N])`."""
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or not x.dims or len(w.dims) != _MATRIX or x.dims[-1] != w.dims[1]:
        return None
    bias = call.tensor(2)
    sizes = (1, math.prod(x.dims[:-1]), w.dims[0], x.dims[-1])
    return _product(sizes, [x, w, *([bias] if bias else [])], x.dtype)


@_model("matmul")
def matmul(call: Call) -> Problem | None:
    """`matmul(A, B)` with torch's rules: vectors are rows or columns; a stack times a plain matrix folds into M."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not a.dims or not b.dims:
        return None
    left = a.dims if len(a.dims) > 1 else (1, *a.dims)
    right = b.dims if len(b.dims) > 1 else (*b.dims, 1)
    if left[-1] != right[-2]:
        return None
    if len(right) == _MATRIX:
        return _product((1, math.prod(left[:-1]), right[-1], left[-1]), [a, b], a.dtype)
    if left[:-2] != right[:-2]:
        return None
    return _product((math.prod(left[:-2]), left[-2], right[-1], left[-1]), [a, b], a.dtype)


@_model("mv", "addmv", "addmv_")
def mv(call: Call) -> Problem | None:
    """`mv(A, x)` and `addmv(y, A, x, beta, alpha)`: N is 1."""
    first = 0 if call.op == "aten::mv" else 1
    a, x = call.tensor(first), call.tensor(first + 1)
    if a is None or x is None or len(a.dims) != _MATRIX or x.dims != a.dims[1:]:
        return None
    return _product((1, a.dims[0], 1, a.dims[1]), [*(_addend(call) if first else []), a, x], a.dtype)


@_model("dot", "vdot")
def dot(call: Call) -> Problem | None:
    """`dot(x, y)`: M and N are 1."""
    x, y = call.tensor(0), call.tensor(1)
    if x is None or y is None or len(x.dims) != 1 or x.dims != y.dims:
        return None
    return _product((1, 1, 1, x.dims[0]), [x, y], x.dtype)


@_model("_scaled_mm", "_scaled_mm_v2")
def scaled_mm(call: Call) -> Problem | None:
    """`_scaled_mm(A, B, …)` on fp8 or fp4; bytes only where the position of the output dtype is known.

    torch >= 2.5: `(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)`.
    """
    a, b, number = call.tensor(0), call.tensor(1), call.integer(6)
    if a is None or a.dtype is None:  # K of fp4 is twice what its dimensions say
        return None
    out = SCALAR_TYPES.get(number) if number is not None and call.tensor(2) and call.tensor(3) else None
    return _product(_matrices(a, b), [a, b], out)


@_model("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: Call) -> Problem | None:
    """`_grouped_mm(A, B, offs, …)`: the group offsets split one axis, so M, N and K are totals over all groups.

    Two dimensions on both sides split K, three on one side split M or N (torch `aten/src/ATen/native/cuda/Blas.cpp`).
    With a split K every group writes an output, and their number is data: size of the output and traffic are unknown.
    """
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or {len(a.dims), len(b.dims)} - {_MATRIX, _BATCHED} or a.dims[-1] != b.dims[-2]:
        return None
    if a.dtype is None and "scaled" in call.op:
        return None
    stacked = len(a.dims) == len(b.dims) == _BATCHED
    if stacked and a.dims[0] != b.dims[0]:
        return None
    sizes = (a.dims[0] if stacked else 1, a.dims[-2], b.dims[-1], a.dims[-1])
    found = _product(sizes, [a, b], a.dtype if call.op == "aten::_grouped_mm" else None)
    unknown: dict[str, None] = {"numel": None, "moved_bytes": None} if len(a.dims) == len(b.dims) == _MATRIX else {}
    return found and dataclasses.replace(found, work_method="grouped gemm 2mnk", **unknown)


@_model("_weight_int4pack_mm", "_weight_int8pack_mm")
def packed_mm(call: Call) -> Problem | None:
    """Weight-only quantised products: `X[M, K]`, packed weights, and a last tensor that holds N.

    int4: `(x, packed, group_size, scales_and_zeros[K/group, N, 2])`; int8: `(x, w[N, K], scales[N])`.
    """
    x, weight, scales = call.tensor(0), call.tensor(1), call.tensor(3 if "int4" in call.op else 2)
    # The tensor that has N, its number of dimensions, and the axis.
    holder, rank, axis = (scales, _BATCHED, 1) if "int4" in call.op else (weight, _MATRIX, 0)
    if x is None or weight is None or len(x.dims) != _MATRIX or holder is None or len(holder.dims) != rank:
        return None
    return _product((1, x.dims[0], holder.dims[axis], x.dims[1]), [x, weight, scales], x.dtype)


_HLO_PRODUCT = re.compile(r"\w+\[([\d,]*)\] x \w+\[([\d,]*)\] -> [a-z]+(\d+)?\w*\[([\d,]*)\]((?:, \w+=\{[\d,]*\})*)")
_HLO_AXES = re.compile(r"(\w+)=\{([\d,]*)\}")
_BYTE = 8


@_model("hlo::dot")
def hlo_dot(call: Call) -> Problem | None:
    """A product of XLA, alone or in a fusion; its last argument says which sizes are summed and which are batches.

    Bytes are the operands of the kernel, whatever is fused before the product, and the result. FLOPs are those of the
    product. Sizes that do not fit each other give None.
    """
    last = len(call.arguments) - 1
    text = _HLO_PRODUCT.fullmatch(call.text(last) or "")
    if text is None:
        return None
    left, right, out = (_numbers(text[group]) for group in (1, 2, 4))
    axes = {key: _numbers(listed) for key, listed in _HLO_AXES.findall(text[5])}
    first, second = (_hlo_sides(dims, side, axes) for dims, side in ((left, "lhs"), (right, "rhs")))
    if first is None or second is None or first[:2] != second[:2]:
        return None
    (batches, sums, m), n = first, second[2]
    sizes = (math.prod(batches), m, n, math.prod(sums))
    if math.prod(sizes[:3]) != math.prod(out):
        return None
    written = None if text[3] is None else math.prod(out) * int(text[3]) // _BYTE
    moved = total([*(tensor.stored_bytes for tensor in call.tensors()), written])
    found = _product(sizes, [], None)
    return found and dataclasses.replace(found, moved_bytes=moved, work_method="hlo dot 2mnk")


def _numbers(text: str) -> Dims:
    return tuple(map(int, text.split(","))) if text else ()


def _hlo_sides(dims: Dims, side: str, axes: Mapping[str, Dims]) -> tuple[list[int], list[int], int] | None:
    """Sizes of the batches, sizes that are summed, and the product of all others; None where an axis is missing."""
    batches, sums = (axes.get(f"{side}_{what}_dims", ()) for what in ("batch", "contracting"))
    if max((*batches, *sums), default=0) >= len(dims):
        return None
    others = math.prod(size for axis, size in enumerate(dims) if axis not in (*batches, *sums))
    return [dims[axis] for axis in batches], [dims[axis] for axis in sums], others
