"""Matrix products: M, N, K, FLOPs and bytes of the operators that end in a GEMM or GEMV kernel.

Sizes are torch's row-major ones, `out[batch, M, N] = A[batch, M, K] @ B[batch, K, N]`, whatever order cuBLAS or
Tensile sees. FLOPs are `2 * batch * M * N * K`, a multiply-add as two (torch `torch/utils/flop_counter.py`: mm_flop,
bmm_flop; NVIDIA "Matrix Multiplication Background User's Guide"); a bias or an epilogue adds nothing. `aten::einsum`
has no model: the trace does not hold its equation, and the `bmm` inside it is recorded by itself. Bytes are A + B +
bias + out, with the addend read only where beta is not 0. `numel` is the number of output elements.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import does_work, model
from kerneldb.work.tensors import SCALAR_TYPES, Tensor, bytes_of, total

if TYPE_CHECKING:
    from kerneldb.work.model import NameFacts
    from kerneldb.work.tensors import Call, Dims

CATEGORIES = frozenset({"GEMM", "GEMV"})
# Split-K sums, separate epilogues, scaling and conversion passes.
_HELPERS = re.compile(r"reduc|epilogue|_aux|scal_kernel|post_?gsu|conver|helper")
_MATRIX = 2
_BATCHED = 3


def _product(
    sizes: tuple[int, int, int, int], read: list[Tensor | None], out: str | None, method: str = "gemm 2mnk"
) -> Problem:
    """The problem of (batch, M, N, K); `read` are the inputs, `out` the output dtype."""
    batch, m, n, k = sizes
    parts = [tensor.stored_bytes if tensor else None for tensor in read]
    moved = total([*parts, bytes_of(batch * m * n, out)])
    return Problem(m, n, k, batch, batch * m * n, "op", 2.0 * batch * m * n * k, moved, method)


def _depth(tensor: Tensor, axis: int) -> int:
    """Logical length of an axis of the contraction; a packed fp4 byte holds two numbers."""
    return tensor.dims[axis] * (2 if tensor.dtype == "fp4x2" else 1)


def _matrices(a: Tensor | None, b: Tensor | None, rank: int) -> tuple[int, int, int, int] | None:
    """(batch, M, N, K) of two matrices or two stacks of matrices, or None where they do not fit."""
    if a is None or b is None or len(a.dims) != rank or len(b.dims) != rank:
        return None
    if a.dims[-1] != b.dims[-2] or a.dims[:-2] != b.dims[:-2]:
        return None
    return math.prod(a.dims[:-2]), a.dims[-2], b.dims[-1], _depth(a, -1)


def _addend(call: Call, position: int) -> list[Tensor | None]:
    """The bias or addend of `addmm` and its kin, unless beta (at `position`) is 0 and it is not read."""
    return [] if call.number(position) == 0 else [call.tensor(0)]


def _dtype(tensor: Tensor | None) -> str | None:
    return tensor.dtype if tensor else None


@model("mm", "bmm")
def mm(call: Call, name: NameFacts) -> Problem | None:
    """`mm(A, B)` and `bmm(A, B)`."""
    a, b = call.tensor(0), call.tensor(1)
    sizes = _matrices(a, b, _BATCHED if call.op == "aten::bmm" else _MATRIX)
    if sizes is None or not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product(sizes, [a, b], _dtype(call.tensor(2) or a))


@model("addmm", "addmm_", "_addmm_activation", "baddbmm", "baddbmm_")
def addmm(call: Call, name: NameFacts) -> Problem | None:
    """`addmm(bias, A, B, beta, alpha)` and `baddbmm`."""
    a, b = call.tensor(1), call.tensor(2)
    sizes = _matrices(a, b, _BATCHED if "baddbmm" in call.op else _MATRIX)
    if sizes is None or not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product(sizes, [*_addend(call, 3), a, b], _dtype(a))


@model("addbmm", "addbmm_")
def addbmm(call: Call, name: NameFacts) -> Problem | None:
    """`addbmm(addend, A, B)` sums the products of a batch, one GEMM launch per entry: only a batch of one is told."""
    sizes = _matrices(call.tensor(1), call.tensor(2), _BATCHED)
    if sizes is None or sizes[0] != 1 or not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product(sizes, [*_addend(call, 3), call.tensor(1), call.tensor(2)], _dtype(call.tensor(1)))


@model("linear")
def linear(call: Call, name: NameFacts) -> Problem | None:
    """`linear(X[..., K], W[N, K], bias[N])`."""
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or not x.dims or len(w.dims) != _MATRIX or x.dims[-1] != w.dims[1]:
        return None
    if not does_work(name, CATEGORIES, _HELPERS):
        return None
    bias = call.tensor(2)
    sizes = (1, math.prod(x.dims[:-1]), w.dims[0], x.dims[-1])
    return _product(sizes, [x, w, *([bias] if bias else [])], x.dtype)


@model("matmul")
def matmul(call: Call, name: NameFacts) -> Problem | None:
    """`matmul(A, B)` with torch's rules: vectors are rows or columns; a stack times a plain matrix folds into M."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not a.dims or not b.dims or not does_work(name, CATEGORIES, _HELPERS):
        return None
    sizes = _matmul_sizes(a.dims, b.dims)
    return None if sizes is None else _product(sizes, [a, b], a.dtype)


def _matmul_sizes(a: Dims, b: Dims) -> tuple[int, int, int, int] | None:
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        return None
    if len(right) == _MATRIX:
        return 1, math.prod(left[:-1]), right[-1], left[-1]
    if left[:-2] != right[:-2]:
        return None
    return math.prod(left[:-2]), left[-2], right[-1], left[-1]


@model("mv", "addmv", "addmv_")
def mv(call: Call, name: NameFacts) -> Problem | None:
    """`mv(A, x)` and `addmv(y, A, x, beta, alpha)`: N is 1."""
    first = 0 if call.op == "aten::mv" else 1
    a, x = call.tensor(first), call.tensor(first + 1)
    if a is None or x is None or len(a.dims) != _MATRIX or x.dims != a.dims[1:]:
        return None
    if not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product((1, a.dims[0], 1, a.dims[1]), [*(_addend(call, 3) if first else []), a, x], a.dtype)


@model("dot", "vdot")
def dot(call: Call, name: NameFacts) -> Problem | None:
    """`dot(x, y)`: M and N are 1."""
    x, y = call.tensor(0), call.tensor(1)
    if x is None or y is None or len(x.dims) != 1 or x.dims != y.dims or not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product((1, 1, 1, x.dims[0]), [x, y], x.dtype)


@model("_scaled_mm", "_scaled_mm_v2")
def scaled_mm(call: Call, name: NameFacts) -> Problem | None:
    """`_scaled_mm(A, B, …)` on fp8 or fp4; bytes only where the position of the output dtype is known."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or len(a.dims) != _MATRIX or len(b.dims) != _MATRIX or a.dims[1] != b.dims[0]:
        return None
    if not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product((1, a.dims[0], b.dims[1], _depth(a, 1)), [a, b], _scaled_out(call))


def _scaled_out(call: Call) -> str | None:
    """Output dtype of torch >= 2.5: `(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)`."""
    number = call.integer(6)
    return SCALAR_TYPES.get(number) if number is not None and call.tensor(2) and call.tensor(3) else None


@model("_int_mm")
def int_mm(call: Call, name: NameFacts) -> Problem | None:
    """`_int_mm(A, B)`: int8 inputs, int32 output. Integer operations are counted like floating-point ones."""
    sizes = _matrices(call.tensor(0), call.tensor(1), _MATRIX)
    if sizes is None or not does_work(name, CATEGORIES, _HELPERS):
        return None
    return _product(sizes, [call.tensor(0), call.tensor(1)], "int32")


@model("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: Call, name: NameFacts) -> Problem | None:
    """`_grouped_mm(A, B, offs, …)`: the group offsets split one axis, so M, N and K are totals over all groups.

    Two dimensions on both sides split K, three on one side split M or N (torch `aten/src/ATen/native/cuda/Blas.cpp`).
    """
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or {len(a.dims), len(b.dims)} - {_MATRIX, _BATCHED} or a.dims[-1] != b.dims[-2]:
        return None
    if not does_work(name, CATEGORIES, _HELPERS):
        return None
    stacked = len(a.dims) == len(b.dims) == _BATCHED
    if stacked and a.dims[0] != b.dims[0]:
        return None
    out = a.dtype if call.op == "aten::_grouped_mm" else None
    ragged_k = len(a.dims) == len(b.dims) == _MATRIX
    problem = _product(
        (a.dims[0] if stacked else 1, a.dims[-2], b.dims[-1], a.dims[-1]), [a, b], out, "grouped gemm 2mnk"
    )
    return _without_bytes(problem) if ragged_k else problem


def _without_bytes(problem: Problem) -> Problem:
    """The same with unknown traffic: with a split K every group writes an output, and their number is data."""
    return Problem(
        problem.gemm_m,
        problem.gemm_n,
        problem.gemm_k,
        problem.gemm_batch,
        None,
        "op",
        problem.flops,
        None,
        problem.work_method,
    )


@model("_weight_int4pack_mm", "_weight_int8pack_mm")
def packed_mm(call: Call, name: NameFacts) -> Problem | None:
    """Weight-only quantised products: `X[M, K]`, packed weights, and a last tensor that holds N.

    int4: `(x, packed, group_size, scales_and_zeros[K/group, N, 2])`; int8: `(x, w[N, K], scales[N])`.
    """
    x, weight = call.tensor(0), call.tensor(1)
    n = _packed_columns(call)
    if x is None or weight is None or n is None or len(x.dims) != _MATRIX or not does_work(name, CATEGORIES, _HELPERS):
        return None
    scales = call.tensor(3 if "int4" in call.op else 2)
    return _product((1, x.dims[0], n, x.dims[1]), [x, weight, scales], x.dtype)


def _packed_columns(call: Call) -> int | None:
    if "int8" in call.op:
        weight = call.tensor(1)
        return weight.dims[0] if weight and len(weight.dims) == _MATRIX else None
    scales = call.tensor(3)
    return scales.dims[1] if scales and len(scales.dims) == _BATCHED else None
