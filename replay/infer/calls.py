"""Writes operator calls as PyTorch's profiler would have recorded them: four JSON texts per call.

An argument is a tensor (dims, strides, dtype), a tuple of tensors, a number (or another plain value) by the text that
PyTorch prints for it, a tuple of integers, or None (also for a value that the profiler does not record). The texts
follow torch/csrc/profiler/collection.cpp: one entry per schema argument, `Scalar` and `ScalarList` for numbers, `""`
for what is None.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.resolve.tensors import contiguous
from kerneldb.replay.wire.plan import CallSpec, OpCall

Dims = tuple[int, ...]

FP8: Final = {
    **dict.fromkeys(("fp8", "fp8e4m3", "e4m3"), "c10::Float8_e4m3fn"),
    **dict.fromkeys(("fp8e5m2", "e5m2"), "c10::Float8_e5m2"),
}
DTYPES: Final = {
    "fp16": ("c10::Half", 2), "bf16": ("c10::BFloat16", 2), "fp32": ("float", 4), "tf32": ("float", 4),
    "fp64": ("double", 8), "int64": ("long int", 8), "int32": ("int", 4), "int16": ("short int", 2),
    "int8": ("signed char", 1), "uint8": ("unsigned char", 1), "bool": ("bool", 1),
    **{name: (recorded, 1) for name, recorded in FP8.items()},
}  # fmt: skip
"""The profiler's name of a dtype, and its bytes."""
WIDE: Final = ("float", 4)
BLOCKS: Final = {
    "q4_0": (18, 32), "q4_1": (20, 32), "q5_0": (22, 32), "q5_1": (24, 32), "q8_0": (34, 32), "q2_K": (84, 256),
    "q3_K": (110, 256), "q4_K": (144, 256), "q5_K": (176, 256), "q6_K": (210, 256),
}  # fmt: skip
"""Bytes and weights of a block of llama.cpp's quantised types (`block_q4_0` and its kin, ggml/src/ggml-common.h)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument. `dtype` is a short name of `DTYPES`; strides None: contiguous."""

    dims: Dims
    dtype: str
    strides: Dims | None = None

    @property
    def layout(self) -> Dims:
        """Its strides."""
        return self.strides or contiguous(self.dims)


Argument = Tensor | tuple[Tensor, ...] | str | Dims | None


def transposed(dims: Dims) -> Dims:
    """Strides of the last two dims swapped: a matrix that is the transpose of a contiguous one."""
    *outer, last, before = contiguous((*dims[:-2], dims[-1], dims[-2]))
    return (*outer, before, last)


def tokens_first(dims: Dims, parts: int = 1) -> Dims:
    """Strides of heads (batch, heads, tokens, width) in the memory of a projection: all heads of a token side by side.

    With `parts`, each head has the first of as many parts of its own, as in a fused projection.
    """
    _, heads, tokens, width = dims
    row = parts * heads * width
    return tokens * row, parts * width, row, 1


def item_bytes(dtype: str | None) -> int:
    """Bytes of an element; 4 where the dtype is not known."""
    return DTYPES.get(dtype or "", WIDE)[1]


def weight_bytes(dtype: str | None) -> float:
    """Bytes of a weight, also of a quantised one; 4 where the dtype is not known."""
    size, weights = BLOCKS.get(dtype or "", (item_bytes(dtype), 1))
    return size / weights


def call(op: str, *arguments: Argument) -> OpCall:
    """`aten::op` with these arguments, as recorded."""
    columns = zip(*map(_entry, arguments), strict=True)
    return OpCall(f"aten::{op}", *(json.dumps(list(column)) for column in columns))


def spec(op: str, *arguments: Argument) -> CallSpec:
    """The same as a `CallSpec`."""
    return CallSpec(call(op, *arguments))


def _entry(one: Argument) -> tuple[Any, Any, str, str]:
    if isinstance(one, Tensor):
        return one.dims, one.layout, DTYPES.get(one.dtype, WIDE)[0], ""
    if isinstance(one, str):
        return [], [], "Scalar", one
    if one is None:
        return [], [], "", ""
    tensors = [entry for entry in one if isinstance(entry, Tensor)]
    if tensors:
        return [entry.dims for entry in tensors], [entry.layout for entry in tensors], "TensorList", ""
    return [], [], "ScalarList", f"[{', '.join(map(str, one))}]"
