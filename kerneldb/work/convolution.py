"""Convolutions: FLOPs and bytes of direct, transposed and backward convolutions of any rank.

FLOPs are `2 * N * Cout * prod(output) * Cin / groups * prod(kernel)` (torch `torch/utils/flop_counter.py`,
conv_flop_count): the work of the direct algorithm, also where Winograd or FFT kernels do less. A transposed
convolution does the same work with input and output exchanged. In a backward call each of the two gradient kernels
does the forward's work. Only kernels of category CONVOLUTION get it: the GEMM kernels of an explicit im2col may run
once per image. `numel` is the number of output elements (backward: of grad_output). Bytes are input + weight + bias +
output; unknown for backward calls, where the trace does not say which gradient a kernel computes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import model
from kerneldb.work.tensors import bytes_of, total

if TYPE_CHECKING:
    from kerneldb.work.tensors import Call, Dims, Tensor

# Layout changes and split-K sums.
_HELPERS = re.compile(r"layout|transform|transpose|padding|conver|reduc|im2col")
_model = functools.partial(model, categories=("CONVOLUTION",), helpers=_HELPERS)
_MIN_RANK = 3


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Argument positions of one operator; None where it has no such argument."""

    stride: int
    padding: int
    dilation: int
    bias: int | None = None
    transposed: int | None = None
    output_padding: int | None = None
    always_transposed: bool = False


_LAYOUTS: dict[str, _Layout] = {
    "aten::cudnn_convolution": _Layout(3, 2, 4),
    "aten::miopen_convolution": _Layout(4, 3, 5, bias=2),
    "aten::miopen_depthwise_convolution": _Layout(4, 3, 5, bias=2),
    "aten::cudnn_convolution_relu": _Layout(3, 4, 5, bias=2),
    "aten::convolution": _Layout(3, 4, 5, bias=2, transposed=6, output_padding=7),
    "aten::_convolution": _Layout(3, 4, 5, bias=2, transposed=6, output_padding=7),
    "aten::conv1d": _Layout(3, 4, 5, bias=2),
    "aten::conv2d": _Layout(3, 4, 5, bias=2),
    "aten::conv3d": _Layout(3, 4, 5, bias=2),
    "aten::_conv_depthwise2d": _Layout(4, 5, 6, bias=3),
    "aten::conv_depthwise3d": _Layout(4, 5, 6, bias=3),
    "aten::cudnn_convolution_transpose": _Layout(4, 2, 5, output_padding=3, always_transposed=True),
    "aten::miopen_convolution_transpose": _Layout(5, 3, 6, bias=2, output_padding=4, always_transposed=True),
}


@_model(*_LAYOUTS)
def convolution(call: Call) -> Problem | None:
    """Work of a forward convolution."""
    layout = _LAYOUTS[call.op]
    source, weight = call.tensor(0), call.tensor(1)
    if source is None or weight is None:
        return None
    if len(source.dims) < _MIN_RANK or len(source.dims) != len(weight.dims):
        return None
    transposed = layout.always_transposed or (layout.transposed is not None and call.flag(layout.transposed))
    size = _transposed_size(call, layout, source, weight) if transposed else _direct_size(call, layout, source, weight)
    if size is None:
        return None
    bias = call.tensor(layout.bias) if layout.bias is not None else None
    read = [source, weight, *([bias] if bias else [])]
    moved = total([*(tensor.stored_bytes for tensor in read), bytes_of(size, source.dtype)])
    method = "transposed convolution 2·in·k" if transposed else "convolution 2·out·k"
    return Problem.of_call(size, method, moved, _flops(source.numel if transposed else size, weight))


def _flops(positions: int, weight: Tensor) -> float | None:
    """Two operations per position of the output (transposed: of the input) and tap of its filter."""
    return 2.0 * positions * math.prod(weight.dims[1:]) if weight.dims[0] else None


def _spread(values: Dims | None, rank: int) -> Dims | None:
    """A parameter for each spatial axis: a single value counts for all."""
    if values is None:
        return None
    return values * rank if len(values) == 1 else (values if len(values) == rank else None)


def _direct_size(call: Call, layout: _Layout, source: Tensor, weight: Tensor) -> int | None:
    """Output elements: `(in + 2 pad - dilation (k - 1) - 1) // stride + 1` on each axis (torch.nn.Conv2d)."""
    rank = len(source.dims) - 2
    stride, padding, dilation = (
        _spread(call.integers(position), rank) for position in (layout.stride, layout.padding, layout.dilation)
    )
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    axes = zip(source.dims[2:], weight.dims[2:], stride, padding, dilation, strict=True)
    sizes = [(length + 2 * pad - gap * (tap - 1) - 1) // step + 1 for length, tap, step, pad, gap in axes]
    return source.dims[0] * weight.dims[0] * math.prod(sizes) if min(sizes) > 0 else None


def _transposed_size(call: Call, layout: _Layout, source: Tensor, weight: Tensor) -> int | None:
    """Output elements: `(in - 1) stride - 2 pad + dilation (k - 1) + out_pad + 1`; channels are weight[1] * groups."""
    rank = len(source.dims) - 2
    extra = call.integers(layout.output_padding) if layout.output_padding is not None else None
    stride, padding, dilation, more = (
        _spread(values, rank)
        for values in (*(call.integers(at) for at in (layout.stride, layout.padding, layout.dilation)), extra)
    )
    groups = call.integer(8 if layout.transposed is not None else layout.dilation + 1)
    if stride is None or padding is None or dilation is None or more is None or not groups:
        return None
    axes = zip(source.dims[2:], weight.dims[2:], stride, padding, dilation, more, strict=True)
    sizes = [(length - 1) * step - 2 * pad + gap * (tap - 1) + plus + 1 for length, tap, step, pad, gap, plus in axes]
    return source.dims[0] * weight.dims[1] * groups * math.prod(sizes) if min(sizes) > 0 else None


@_model("convolution_backward")
def convolution_backward(call: Call) -> Problem | None:
    """`convolution_backward(grad_output, input, weight, …, transposed at 7)`: one gradient per kernel."""
    gradient, source, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    transposed = call.flag(7)
    if gradient is None or source is None or weight is None or transposed is None or not weight.dims:
        return None
    flops = _flops(source.numel if transposed else gradient.numel, weight)
    return Problem.of_call(gradient.numel, "convolution gradient 2·out·k", flops=flops)
