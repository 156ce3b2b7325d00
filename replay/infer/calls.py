"""Writes operator calls as PyTorch's profiler would have recorded them: four JSON texts per call.

An argument is a tensor (dims, strides, dtype), a number as text, or nothing (None, a default). The texts follow
torch/csrc/profiler/collection.cpp: one entry per schema argument, `Scalar` and `ScalarList` for numbers, `""` for what
is None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.wire.plan import CallSpec, OpCall

Dims = tuple[int, ...]

DTYPES: Final = {
    "fp16": "c10::Half",
    "bf16": "c10::BFloat16",
    "fp32": "float",
    "tf32": "float",
    "fp64": "double",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "fp8": "c10::Float8_e4m3fn",
    "fp8e4m3": "c10::Float8_e4m3fn",
    "e4m3": "c10::Float8_e4m3fn",
    "fp8e5m2": "c10::Float8_e5m2",
    "e5m2": "c10::Float8_e5m2",
}
SIZES: Final = {
    "fp16": 2, "bf16": 2, "fp32": 4, "tf32": 4, "fp64": 8, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
    "bool": 1, "fp8": 1, "fp8e4m3": 1, "e4m3": 1, "fp8e5m2": 1, "e5m2": 1,
}  # fmt: skip
WIDE: Final = 4
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


@dataclass(frozen=True, slots=True)
class Tensors:
    """A list of tensors."""

    entries: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A number, or another plain value, by the text that PyTorch prints for it."""

    text: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """A list of integers."""

    values: Dims


@dataclass(frozen=True, slots=True)
class Nothing:
    """None, or a value that the profiler does not record."""


Argument = Tensor | Tensors | Number | Numbers | Nothing


def wrapped(value: str = "double") -> Tensor:
    """A Python number where the operator takes a tensor: 0 dims, double or long int."""
    return Tensor((), "fp64" if value == "double" else "int64")


def contiguous(dims: Sequence[int]) -> Dims:
    """Row-major strides."""
    strides: list[int] = []
    step = 1
    for size in reversed(dims):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def transposed(dims: Sequence[int]) -> Dims:
    """Strides of the last two dims swapped: a matrix that is the transpose of a contiguous one."""
    swapped = contiguous((*dims[:-2], dims[-1], dims[-2]))
    return (*swapped[:-2], swapped[-1], swapped[-2])


def numel(dims: Sequence[int]) -> int:
    """Elements of a tensor of these dims."""
    return math.prod(dims)


def item_bytes(dtype: str | None) -> int:
    """Bytes of an element; 4 where the dtype is not known."""
    return SIZES.get(dtype or "", WIDE)


def weight_bytes(dtype: str | None) -> float:
    """Bytes of a weight, also of a quantised one; 4 where the dtype is not known."""
    size, weights = BLOCKS.get(dtype or "", (item_bytes(dtype), 1))
    return size / weights


def stored(tensor: Tensor) -> int:
    """Bytes that a tensor really holds: dims of stride 0 count once."""
    strides = tensor.strides or contiguous(tensor.dims)
    kept = (size if stride else 1 for size, stride in zip(tensor.dims, strides, strict=True))
    return math.prod(kept) * item_bytes(tensor.dtype)


def call(op: str, *arguments: Argument) -> OpCall:
    """`aten::op` with these arguments, as recorded."""
    parts = [_entry(one) for one in arguments]
    dims, strides, dtypes, scalars = ([part[place] for part in parts] for place in range(4))
    return OpCall(f"aten::{op}", *(json.dumps(one) for one in (dims, strides, dtypes, scalars)))


def spec(op: str, *arguments: Argument) -> CallSpec:
    """The same as a `CallSpec`; tensor lists get their dtype from a neighbour that names it."""
    made = call(op, *arguments)
    return CallSpec(made)


def _entry(one: Argument) -> tuple[Any, Any, str, str]:
    if isinstance(one, Tensor):
        return list(one.dims), list(one.strides or contiguous(one.dims)), DTYPES.get(one.dtype, "float"), ""
    if isinstance(one, Tensors):
        dims = [list(entry.dims) for entry in one.entries]
        return dims, [list(entry.strides or contiguous(entry.dims)) for entry in one.entries], "TensorList", ""
    if isinstance(one, Number):
        return [], [], "Scalar", one.text
    if isinstance(one, Numbers):
        return [], [], "ScalarList", "[" + ", ".join(map(str, one.values)) + "]"
    return [], [], "", ""
