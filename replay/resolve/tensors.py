"""Dtypes, and tensors of recorded dims, strides and dtype.

Dtypes in every spelling of PyTorch's profiler, and the enums that it prints as integers.

Sources: `scalarTypeToTypeMeta().name()` (C++ type names, which differ between compilers) for tensors;
c10/core/ScalarType.h, Layout.h and MemoryFormat.h for the integers.

Tensors of recorded dims, strides and dtype, whatever the strides: transposed, expanded, overlapping, with gaps.

A tensor is made by `empty_strided`, or by `set_` into a larger storage, never as a view of another one: `detach_` and
friends refuse views. Its whole storage is filled, on its own device.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError

TORCH_NAMES: Final = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "bool": "bool",
    "long int": "int64", "long": "int64", "long long": "int64", "long long int": "int64", "__int64": "int64",
    "int": "int32", "short int": "int16", "short": "int16", "signed char": "int8", "char": "int8",
    "unsigned char": "uint8", "short unsigned int": "uint16", "unsigned short": "uint16", "unsigned int": "uint32",
    "long unsigned int": "uint64", "unsigned long": "uint64", "unsigned long long": "uint64",
    "unsigned __int64": "uint64", "c10::complex<c10::Half>": "complex32", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu", "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2", "c10::qint8": "qint8",
    "c10::quint8": "quint8", "c10::qint32": "qint32",
}  # fmt: skip
SCALAR_TYPES: Final = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 12: "qint8", 13: "quint8", 14: "qint32",
    15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz",
    27: "uint16", 28: "uint32", 29: "uint64", 44: "float8_e8m0fnu", 45: "float4_e2m1fn_x2",
}  # fmt: skip
LAYOUTS: Final = {0: "strided", 1: "sparse_coo", 2: "sparse_csr", 3: "_mkldnn", 4: "sparse_csc"}
MEMORY_FORMATS: Final = {0: "contiguous_format", 1: "preserve_format", 2: "channels_last", 3: "channels_last_3d"}
ENUMS: Final = {"ScalarType": SCALAR_TYPES, "Layout": LAYOUTS, "MemoryFormat": MEMORY_FORMATS}
INTEGERS: Final = frozenset(
    {"int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "qint8", "quint8", "qint32"}
)
CHUNK: Final = 1 << 24
MASKED: Final = "masked"
DOMINANT: Final = "dominant"
GRAM: Final = "gram"
FACTOR: Final = "factor"
POOLED: Final = "pooled"
SHAPED: Final = frozenset({"masked", DOMINANT, GRAM, FACTOR})
"""Kinds that say what the last two dims hold."""
MATRIX: Final = 2
ONEDNN: Final = "_mkldnn"

Shape = tuple[int, ...]


def torch_name(name: str) -> str:
    """`float16` for `c10::Half`. Raises UnresolvedCallError (DTYPE)."""
    if name not in TORCH_NAMES:
        raise UnresolvedCallError(Reason.DTYPE, name)
    return TORCH_NAMES[name]


def torch_dtype(dtype: str) -> Any:
    """The torch.dtype of a torch dtype name. Raises UnresolvedCallError (DTYPE) where this torch lacks it."""
    return _of_torch(dtype, dtype)


def enum_value(kind: str, code: int) -> Any:
    """The torch object of a recorded enum integer; `kind` is ScalarType, Layout or MemoryFormat.

    Raises UnresolvedCallError (DTYPE) where this torch lacks it.
    """
    return _of_torch(ENUMS[kind].get(code, ""), f"{kind} {code}")


def _of_torch(name: str, recorded: str) -> Any:
    import torch

    found = getattr(torch, name, None)
    if found is None:
        raise UnresolvedCallError(Reason.DTYPE, recorded)
    return found


@dataclass(frozen=True, slots=True)
class Fill:
    """How values are drawn; what `low` and `high` mean depends on `kind`.

    normal        mean, standard deviation           uniform      bounds, high excluded
    integers      bounds, high excluded              constant     the value (low)
    ascending     first and last value, linear       cumulative   first and last of a rounded linear sequence
    pooled        places that windows over the last dims were taken from, integers from low to high (excluded); `values`
                  are for each dim its size, and of the window size, step, padding and dilation
    count         random mask with `high` true       empty        left uninitialised
    range         0, 1, 2, … modulo high, from low    values       exactly `values`
    masked        as normal, and above the diagonal of the last two dims the least number of the dtype
    shuffled      as range, in random order           even         sizes that add up to low, of each `high` in a row
    dominant      as normal, and on the diagonal of the last two dims more than their size
    gram          products of the rows of such a matrix, and its size on the diagonal: positive definite, as
                  covariances are; its factor is full
    factor        as normal over the root of the size, and on the diagonal from 1 on: either triangle is
                  well-conditioned, also with a diagonal that is taken to be 1
    """

    kind: str
    low: float = 0.0
    high: float = 1.0
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor to be made. `dims`, `strides`, `offset` and `storage` (least size) in elements; dtype a torch name.

    `place` None is the call's device, else "cpu" or "pinned". Specs of one call with the same `group` (not 0) become
    the same tensor. `sparse` names a layout of torch other than the strided one, `nonzeros` its elements (of a sparse
    one).
    """

    dims: Shape
    strides: Shape
    dtype: str
    fill: Fill = field(default_factory=lambda: Fill("normal"))
    offset: int = 0
    storage: int = 0
    place: str | None = None
    group: int = 0
    sparse: str = ""
    nonzeros: int = 0

    @property
    def elements(self) -> int:
        """Elements of the storage: offset and span, at least `storage`."""
        return max(self.offset + span(self.dims, self.strides), self.storage)


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """A bare storage of `elements` of a torch dtype name, for `set_`."""

    elements: int
    dtype: str


def span(dims: Shape, strides: Shape) -> int:
    """Elements between the first and the last one of a strided tensor, both included; 0 for an empty one."""
    return 0 if 0 in dims else 1 + sum((size - 1) * stride for size, stride in zip(dims, strides, strict=True))


def distinct(dims: Shape, strides: Shape) -> int:
    """Elements that a strided tensor really holds: broadcast dims (stride 0) count once."""
    kept = (size if stride else min(size, 1) for size, stride in zip(dims, strides, strict=True))
    return min(math.prod(kept), span(dims, strides))


def contiguous(dims: Shape) -> Shape:
    """Row-major strides."""
    steps = itertools.accumulate((max(size, 1) for size in reversed(dims)), operator.mul, initial=1)
    return tuple(steps)[:-1][::-1]


def make(spec: TensorSpec, device: str, generator: Any = None) -> Any:
    """The tensor of `spec`, filled."""
    import torch

    place = "cpu" if spec.place else device
    dtype = torch_dtype(spec.dtype)
    if spec.sparse:
        return _unstrided(spec, place, generator)
    if spec.offset or spec.storage > span(spec.dims, spec.strides):
        base = torch.empty(spec.elements, dtype=dtype, device=place)
        tensor = torch.empty(0, dtype=dtype, device=place)
        tensor.set_(base.untyped_storage(), spec.offset, spec.dims, spec.strides)
    else:
        tensor = torch.empty_strided(spec.dims, spec.strides, dtype=dtype, device=place)
    if spec.place == "pinned":
        tensor = tensor.pin_memory()
    refill(tensor, spec, generator)
    return tensor


def _unstrided(spec: TensorSpec, place: str, generator: Any) -> Any:
    """A sparse tensor with as many elements as are known, anywhere; or one of oneDNN."""
    import torch

    dense = make(replace(spec, sparse="", strides=contiguous(spec.dims)), place, generator)
    if spec.sparse == ONEDNN:
        return dense.to_mkldnn()
    kept = make(TensorSpec(spec.dims, contiguous(spec.dims), "bool", Fill("count", 0, spec.nonzeros)), place, generator)
    layout = getattr(torch, spec.sparse)
    return torch.where(kept, dense, torch.zeros_like(dense)).to_sparse(layout=layout)


def refill(tensor: Any, spec: TensorSpec, generator: Any = None) -> None:
    """Draw the values of `tensor` (made from `spec`) anew, in its whole storage; sparse ones keep theirs."""
    import torch

    if spec.sparse:
        return
    count = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
    if not count or tensor.device.type == "meta" or spec.fill.kind == "empty":
        return
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    flat.set_(tensor.untyped_storage(), 0, (count,), (1,))
    drawn = None if generator is None or generator.device.type != tensor.device.type else generator
    with torch.no_grad():
        if spec.dtype.startswith("float4"):
            flat.view(torch.uint8).random_(0, 256, generator=drawn)
        elif spec.fill.kind in SHAPED | {"normal", "uniform"}:
            _fill_real(flat, spec, drawn)
        elif spec.fill.kind == POOLED and 0 not in tensor.stride():
            _pool(tensor, spec.fill.values, drawn)
        elif spec.fill.kind == POOLED:
            flat.random_(0, max(int(spec.fill.high), 1), generator=drawn)
        else:
            _fill_exact(flat, spec.fill, drawn)
    if spec.fill.kind == MASKED:
        hide(tensor)
    elif spec.fill.kind in SHAPED and tensor.dim() >= MATRIX and 0 not in tensor.stride():
        with torch.no_grad():
            _shape(tensor, spec.fill.kind)


def _shape(tensor: Any, kind: str) -> None:
    """Make a drawn tensor matrices of a kind."""
    size, diagonal = max(tensor.shape[-2:]), tensor.diagonal(0, -2, -1)
    if kind == FACTOR:
        tensor.div_(size**0.5)
        diagonal.copy_(diagonal.abs() + 1)
    elif kind == GRAM and tensor.shape[-2] == tensor.shape[-1]:
        tensor.copy_(tensor @ tensor.mH)
        diagonal.add_(size)
    else:
        diagonal.add_(size + 1)


def _pool(tensor: Any, said: tuple[int, ...], generator: Any) -> None:
    """Any place of the window that each element was taken from, counted over all dims that have windows."""
    import torch

    found, last = torch.zeros_like(tensor), len(said) // 5
    for axis, (size, window, step, padding, gap) in enumerate(zip(*(iter(said),) * 5, strict=True), -last):
        begins = torch.arange(tensor.shape[axis], device=tensor.device) * step - padding
        within = torch.empty_like(tensor).random_(0, window, generator=generator) * gap
        found = found * size + (within + begins.reshape(-1, *(1,) * (-1 - axis))).clamp_(0, size - 1)
    tensor.copy_(found)


def hide(scores: Any) -> None:
    """Give attention scores the values that a causal mask leaves: the least number of the dtype above the diagonal.

    The last query sees all keys. A softmax of such rows takes longer: exp is 0 there, and `div.rn.f32` takes its slow
    path for zero and tiny operands (0.79 of the recorded time without, 0.92 with them, on an H200).
    """
    import torch

    if scores.dim() < MATRIX or not scores.dtype.is_floating_point or 0 in scores.stride():
        return
    rows, columns = scores.shape[-2:]
    hidden = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).triu(columns - rows + 1)
    with torch.no_grad():
        scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)


def _fill_real(flat: Any, spec: TensorSpec, generator: Any) -> None:
    import torch

    low, high = spec.fill.low, spec.fill.high
    if spec.dtype == "bool":
        flat.random_(0, 2, generator=generator)
    elif spec.dtype in INTEGERS:
        flat.random_(math.floor(low), max(math.ceil(high), math.floor(low) + 1), generator=generator)
    elif spec.dtype.startswith("float8"):  # no random numbers in 8 bits: drawn in float32, chunk by chunk
        for part in flat.split(CHUNK):
            drawn = torch.empty(part.shape, dtype=torch.float32, device=flat.device)
            _fill_real(drawn, TensorSpec((), (), "float32", spec.fill), generator)
            part.copy_(drawn)
    elif spec.fill.kind in SHAPED | {"normal"}:
        flat.normal_(low, high, generator=generator)
    else:
        flat.uniform_(low, high, generator=generator)


def _fill_exact(flat: Any, fill: Fill, generator: Any) -> None:
    import torch

    count, device = flat.numel(), flat.device
    low, high = fill.low, fill.high
    if fill.kind == "constant":
        flat.fill_(low)
    elif fill.kind == "integers":
        flat.random_(int(low), max(int(high), int(low) + 1), generator=generator)
    elif fill.kind == "range":
        flat.copy_(torch.arange(count, device=device).remainder_(max(int(high - low), 1)).add_(int(low)))
    elif fill.kind == "shuffled":
        order = torch.randperm(count, device=device, generator=generator)
        flat.copy_(order.remainder_(max(int(high - low), 1)).add_(int(low)))
    elif fill.kind == "even":
        total, parts = int(low), max(int(high), 1)
        ends = torch.arange(count, device=device).remainder_(parts)
        flat.copy_((ends + 1) * total // parts - ends * total // parts)
    elif fill.kind == "count":
        flat.zero_()
        flat[torch.randperm(count, device=device, generator=generator)[: int(high)]] = 1
    elif fill.kind == "values":
        flat.copy_(torch.tensor(fill.values, device=device))
    elif fill.kind == "ascending":
        flat.copy_(torch.linspace(low, high, count, device=device))
    else:
        flat.copy_(torch.linspace(low, high, count, device=device, dtype=torch.float64).round())


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a value, such as what a call returned: itself, or those of a list, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
