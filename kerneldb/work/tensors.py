"""Read the recorded arguments of an operator call: tensors, lists and scalars from the JSON text of a trace.

torch.profiler writes one entry per schema argument in each of `Input Dims`, `Input Strides`, `Input type` and
`Concrete Inputs` (kineto `libkineto/src/output_json.cpp`, torch `torch/csrc/profiler/util.cpp`). Dtypes are C++ type
names, scalar values are text, a TensorList nests its dims one level deeper and hides its dtype. Old traces lack some
of the four, and damaged ones hold anything; whatever does not have the expected form is read as absent.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.work.model import OpCall

Dims = tuple[int, ...]

_KINDS: dict[str, tuple[str, str]] = {
    "bool": ("bool", "bool"),
    "unsigned char": ("uint8", "int"),
    "signed char": ("int8", "int"),
    "char": ("int8", "int"),
    "short": ("int16", "int"),
    "short int": ("int16", "int"),
    "unsigned short": ("uint16", "int"),
    "short unsigned int": ("uint16", "int"),
    "int": ("int32", "int"),
    "unsigned int": ("uint32", "int"),
    "long": ("int64", "int"),
    "long int": ("int64", "int"),
    "long long": ("int64", "int"),
    "__int64": ("int64", "int"),
    "unsigned long": ("uint64", "int"),
    "long unsigned int": ("uint64", "int"),
    "unsigned long long": ("uint64", "int"),
    "unsigned __int64": ("uint64", "int"),
    "c10::Float4_e2m1fn_x2": ("fp4x2", "packed"),
    "c10::Float8_e4m3fn": ("fp8_e4m3fn", "float"),
    "c10::Float8_e4m3fnuz": ("fp8_e4m3fnuz", "float"),
    "c10::Float8_e5m2": ("fp8_e5m2", "float"),
    "c10::Float8_e5m2fnuz": ("fp8_e5m2fnuz", "float"),
    "c10::Float8_e8m0fnu": ("fp8_e8m0fnu", "float"),
    "c10::Half": ("fp16", "float"),
    "c10::BFloat16": ("bf16", "float"),
    "float": ("fp32", "float"),
    "double": ("fp64", "float"),
    "c10::complex<c10::Half>": ("complex32", "complex"),
    "c10::complex<float>": ("complex64", "complex"),
    "c10::complex<double>": ("complex128", "complex"),
    "c10::qint8": ("qint8", "int"),
    "c10::quint8": ("quint8", "int"),
    "c10::qint32": ("qint32", "int"),
}

ITEM_BYTES: dict[str, int] = {
    **dict.fromkeys(("bool", "uint8", "int8", "qint8", "quint8", "fp4x2"), 1),
    **dict.fromkeys(("fp8_e4m3fn", "fp8_e4m3fnuz", "fp8_e5m2", "fp8_e5m2fnuz", "fp8_e8m0fnu"), 1),
    **dict.fromkeys(("int16", "uint16", "fp16", "bf16"), 2),
    **dict.fromkeys(("int32", "uint32", "qint32", "fp32", "complex32"), 4),
    **dict.fromkeys(("int64", "uint64", "fp64", "complex64"), 8),
    "complex128": 16,
}
"""Bytes per element by short dtype name. `fp4x2` is torch's byte that packs two 4-bit numbers."""

SCALAR_TYPES: dict[int, str] = {
    **{0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "fp16", 6: "fp32", 7: "fp64"},
    **{8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 15: "bf16"},
    **{23: "fp8_e5m2", 24: "fp8_e4m3fn", 25: "fp8_e5m2fnuz", 26: "fp8_e4m3fnuz"},
    **{27: "uint16", 28: "uint32", 29: "uint64"},
}
"""`c10::ScalarType` numbers (torch `c10/core/ScalarType.h`), as `Concrete Inputs` holds dtype arguments."""

_CATEGORY = dict(_KINDS.values())
DTYPES = {cpp: short for cpp, (short, _) in _KINDS.items()}
"""Short dtype name by the C++ type that torch.profiler records."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument: sizes, strides in elements, short dtype name; the last two None where not recorded."""

    dims: Dims
    strides: Dims | None
    dtype: str | None

    @property
    def numel(self) -> int:
        """Number of logical elements."""
        return math.prod(self.dims)

    @property
    def stored(self) -> int:
        """Distinct elements in memory: expanded (stride 0) dimensions once, overlapping windows at most their span."""
        if self.strides is None or 0 in self.dims:
            return self.numel
        pairs = [(size, abs(step)) for size, step in zip(self.dims, self.strides, strict=True) if step]
        span = 1 + sum((size - 1) * step for size, step in pairs)
        return min(math.prod(size for size, _ in pairs), span)

    @property
    def stored_bytes(self) -> int | None:
        """Bytes of the distinct elements, or None where the dtype is unknown."""
        return bytes_of(self.stored, self.dtype)


Argument = Tensor | tuple[Tensor, ...] | str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A parsed operator call: `arguments[i]` is a tensor, a tuple of tensors, the text of a scalar or list, or None."""

    op: str
    arguments: tuple[Argument, ...]

    def tensor(self, index: int) -> Tensor | None:
        """The tensor at a schema position, or None."""
        found = self.argument(index)
        return found if isinstance(found, Tensor) else None

    def argument(self, index: int) -> Argument:
        """The argument at a schema position, or None."""
        return self.arguments[index] if 0 <= index < len(self.arguments) else None

    def tensors(self) -> list[Tensor]:
        """All tensor arguments that are not inside lists, in order."""
        return [found for found in self.arguments if isinstance(found, Tensor)]

    def text(self, index: int) -> str | None:
        """The text of a scalar argument, or None where it is absent."""
        found = self.argument(index)
        return found if isinstance(found, str) and found else None

    def integer(self, index: int) -> int | None:
        """An integer argument, or None."""
        return parse_integer(self.text(index))

    def number(self, index: int) -> float | None:
        """A finite numeric argument, or None."""
        try:
            value = float(self.text(index) or "")
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def flag(self, index: int) -> bool | None:
        """A bool argument, or None."""
        return {"True": True, "False": False, "true": True, "false": False}.get(self.text(index) or "")

    def integers(self, index: int) -> Dims | None:
        """An int list as torch prints it, '[1, 2]'; None where any entry is something else."""
        text = self.text(index) or ""
        if not (text.startswith("[") and text.endswith("]")):
            return None
        body = text[1:-1].strip()
        found = [parse_integer(part.strip()) for part in body.split(",")] if body else []
        known = tuple(value for value in found if value is not None)
        return known if len(known) == len(found) else None


def bytes_of(count: int | None, dtype: str | None) -> int | None:
    """Bytes of `count` elements of a short dtype name; None where either is unknown."""
    size = ITEM_BYTES.get(dtype or "")
    return None if size is None or count is None else count * size


def total(parts: Sequence[int | None]) -> float | None:
    """Sum of byte counts; None as soon as one part is unknown."""
    known = [part for part in parts if part is not None]
    return float(sum(known)) if len(known) == len(parts) else None


def category(dtype: str | None) -> str | None:
    """'bool', 'int', 'float', 'complex' or 'packed' of a short dtype name."""
    return _CATEGORY.get(dtype or "")


def parse_integer(text: str | None) -> int | None:
    """A decimal integer of at most 18 digits, or None."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None  # noqa: PLR2004


def parse_call(call: OpCall) -> Call | None:
    """Parse the recorded texts. None where there is no operator or no readable `input_dims`."""
    dims = _entries(call.input_dims)
    if not call.op or dims is None:
        return None
    count = len(dims)
    strides = _padded(_entries(call.input_strides), count)
    dtypes = _padded(_entries(call.input_dtypes), count)
    scalars = _padded(_entries(call.scalars), count)
    return Call(call.op, tuple(map(_argument, dims, strides, dtypes, scalars)))


def tensor_types(call: OpCall) -> list[str]:
    """The C++ element types of the tensors among the recorded arguments; numbers (no dimensions) are left out."""
    dtypes = _entries(call.input_dtypes) or []
    dims = _padded(_entries(call.input_dims), len(dtypes))
    return [
        dtype
        for dtype, size in zip(dtypes, dims, strict=True)
        if isinstance(dtype, str) and dtype in DTYPES and size != []
    ]


def _entries(text: str | None) -> list[Any] | None:
    if not text:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _padded(entries: list[Any] | None, count: int) -> list[Any]:
    """Entries that line up with the dims; a list of another length belongs to another layout and is not used."""
    return entries if entries is not None and len(entries) == count else [None] * count


def _argument(dims: object, strides: object, dtype: object, scalar: object) -> Argument:
    if isinstance(dims, list) and dims and all(isinstance(part, list) for part in dims):
        steps = _padded(strides if isinstance(strides, list) else None, len(dims))
        found = [_tensor(size, step, None) for size, step in zip(dims, steps, strict=True)]
        known = tuple(tensor for tensor in found if tensor is not None)
        return known if len(known) == len(found) else None
    if isinstance(dtype, str) and dtype in DTYPES:
        return _tensor(dims, strides, DTYPES[dtype])
    if dtype is None and isinstance(dims, list) and dims:
        return _tensor(dims, strides, None)
    return scalar if isinstance(scalar, str) else None


def _tensor(dims: object, strides: object, dtype: str | None) -> Tensor | None:
    sizes = _integers(dims)
    if sizes is None or any(size < 0 for size in sizes):
        return None
    steps = _integers(strides)
    return Tensor(sizes, steps if steps is not None and len(steps) == len(sizes) else None, dtype)


def _integers(value: object) -> Dims | None:
    """A JSON list of integers. `type` and not `isinstance`, because a JSON `true` is not a size."""
    if not isinstance(value, list) or any(type(part) is not int for part in value):
        return None
    return tuple(value)


def broadcast(shapes: Sequence[Dims]) -> Dims | None:
    """The broadcast shape (torch semantics), or None where the shapes do not fit."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            if size != 1 and out[position] not in (1, size):
                return None
            out[position] = size if size != 1 else out[position]
    return tuple(out)


_ORDER = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def promote(left: str | None, right: str | None) -> str | None:
    """Result dtype of two dimensioned operands (torch `promote_types`), or None where torch has no simple answer."""
    if left == right:
        return left
    first, second = category(left), category(right)
    if first not in _ORDER or second not in _ORDER or left is None or right is None:
        return None
    if first != second:
        lower, higher = sorted((left, right), key=lambda name: _ORDER[_CATEGORY[name]])
        if category(higher) != "complex" or category(lower) != "float":
            return higher
        if lower == "fp64":
            return "complex128"
        return "complex64" if higher == "complex32" and lower != "fp16" else higher
    if {left, right} == {"fp16", "bf16"}:
        return "fp32"
    if {left, right} == {"uint8", "int8"}:
        return "int16"
    wider = max(left, right, key=ITEM_BYTES.__getitem__)
    return wider if ITEM_BYTES[left] != ITEM_BYTES[right] else None
