"""Reductions, scans, normalisations and softmax.

`numel` is the number of elements of the *input*. Reductions count one operation per input element where it is
floating-point ("reduction 1 op/element"); normalisation and softmax have no agreed count, so their FLOPs are unknown
and only bytes are given. Bytes: inputs read once, outputs written once (including the row statistics that
`native_layer_norm` returns). Operators that run as several kernels of their own family (batch and group norm, backward
norms, scans, sorts) get `numel` only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import model
from kerneldb.work.tensors import SCALAR_TYPES, Tensor, bytes_of, category, parse_integer, total

if TYPE_CHECKING:
    from kerneldb.work.tensors import Call, Dims


_DIM_AT = {
    **dict.fromkeys(("sum", "mean", "nansum", "prod", "amax", "amin", "all", "any", "argmax", "argmin"), 1),
    **dict.fromkeys(("max", "min", "logsumexp", "std", "var", "count_nonzero"), 1),
    **dict.fromkeys(("norm", "linalg_vector_norm"), 2),
}
_DTYPE_AT = {"sum": 3, "mean": 3, "nansum": 3, "prod": 3, "linalg_vector_norm": 4}


@model(*_DIM_AT, categories=("REDUCTION",))
def reduce(call: Call) -> Problem | None:
    """Sums, means, extrema, norms over some or all dimensions."""
    source = call.tensor(0)
    if source is None or call.tensor(1) is not None:
        return None
    base = call.op.removeprefix("aten::")
    flops = float(source.numel) if category(source.dtype) in ("float", "complex") else None
    moved = total([source.stored_bytes, _result_bytes(base, call, source)])
    return Problem.of_call(source.numel, "reduction 1 op/element", moved, flops)


def _result_bytes(base: str, call: Call, source: Tensor) -> int | None:
    count = _kept(source.dims, call.text(_DIM_AT[base]))
    if count is None or category(source.dtype) == "complex":
        return None
    written = bytes_of(count, _result_dtype(base, call, source))
    if base in ("max", "min") and call.text(1) and written is not None:
        return written + 8 * count
    return written


def _kept(dims: Dims, text: str | None) -> int | None:
    """Elements that remain when the axes in `text` ('[0, -1]', '1', or None and '[]' for all of them) are reduced."""
    if text is None or text == "[]":
        return 1
    axes = [parse_integer(part.strip()) for part in text.strip("[]").split(",")]
    known = {axis % len(dims) for axis in axes if axis is not None and -len(dims) <= axis < len(dims)}
    if len(known) != len(axes):
        return None
    return math.prod(size for axis, size in enumerate(dims) if axis not in known)


def _result_dtype(base: str, call: Call, source: Tensor) -> str | None:
    if base in ("all", "any"):
        return "bool"
    if base in ("argmax", "argmin", "count_nonzero"):
        return "int64"
    number = call.integer(_DTYPE_AT[base]) if base in _DTYPE_AT else None
    if number is not None:
        return SCALAR_TYPES.get(number)
    integral = category(source.dtype) in ("bool", "int")
    return "int64" if integral and base in ("sum", "prod", "nansum") else source.dtype


@model("_softmax", "_log_softmax", "_safe_softmax", categories=("SOFTMAX",))
def softmax(call: Call) -> Problem | None:
    """`_softmax(x, dim, half_to_float)`; with half_to_float the output is fp32."""
    source = call.tensor(0)
    if source is None:
        return None
    out = "fp32" if call.flag(2) else source.dtype
    moved = total([source.stored_bytes, bytes_of(source.numel, out)])
    return Problem.of_call(source.numel, "softmax bytes", moved)


@model("_softmax_backward_data", "_log_softmax_backward_data", categories=("SOFTMAX",))
def softmax_backward(call: Call) -> Problem | None:
    """`_softmax_backward_data(grad, output, dim, input_dtype)`: reads both, writes the gradient of the input."""
    gradient, output = call.tensor(0), call.tensor(1)
    if gradient is None or output is None:
        return None
    number = call.integer(3)
    out = SCALAR_TYPES.get(number) if number is not None else None
    moved = total([gradient.stored_bytes, output.stored_bytes, bytes_of(output.numel, out)])
    return Problem.of_call(output.numel, "softmax bytes", moved)


@model("native_layer_norm", "_fused_rms_norm", categories=("NORMALIZATION",))
def layer_norm(call: Call) -> Problem | None:
    """`native_layer_norm(x, shape, weight, bias, eps)` and `_fused_rms_norm(x, shape, weight, eps)`.

    Both return statistics per row, fp32 (fp64 for fp64 input): mean and rstd, or rstd alone.
    """
    source, shape = call.tensor(0), call.integers(1)
    if source is None:
        return None
    parameters = [tensor for tensor in (call.tensor(2), call.tensor(3)) if tensor]
    read = [tensor.stored_bytes for tensor in (source, *parameters)]
    statistics = None
    if shape and source.dims[-len(shape) :] == shape:  # a row is the trailing `shape` of the input
        rows = math.prod(source.dims[: -len(shape)])
        count = 2 if call.op == "aten::native_layer_norm" else 1
        statistics = bytes_of(count * rows, "fp64" if source.dtype == "fp64" else "fp32")
    moved = total([*read, bytes_of(source.numel, source.dtype), statistics])
    return Problem.of_call(source.numel, "norm bytes", moved)


@model(
    *("native_layer_norm_backward", "_fused_rms_norm_backward", "native_group_norm", "native_group_norm_backward"),
    *("native_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm", "cudnn_batch_norm_backward"),
    *("miopen_batch_norm", "miopen_batch_norm_backward", "_native_batch_norm_legit", "_batch_norm_with_update"),
    categories=("NORMALIZATION",),
)
def norm_size(call: Call) -> Problem | None:
    """Normalisations that may take several kernels: the size of the first tensor (input, or its gradient)."""
    source = call.tensor(0)
    if source is None:
        return None
    return Problem.of_call(source.numel, "norm, size only")


@model(
    *("cumsum", "cumprod", "cumsum_", "cummax", "cummin", "logcumsumexp", "sort", "argsort", "topk", "kthvalue"),
    *("nonzero", "unique_consecutive", "_unique2", "unique_dim", "masked_select", "bincount", "histc", "searchsorted"),
    categories=("SCAN_SORT",),
)
def scan(call: Call) -> Problem | None:
    """Scans, sorts and selections take several kernels with data-dependent outputs: the size of the input."""
    source = call.tensor(0)
    if source is None:
        return None
    return Problem.of_call(source.numel, "scan or sort, size only")
