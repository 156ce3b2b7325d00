"""Recorded arguments of a call: the four JSON texts of `op_calls`, parsed and aligned. No torch here.

PyTorch writes one entry per schema argument (torch/csrc/profiler/collection.cpp): a dtype name for a tensor, `Scalar`,
`ScalarList`, `TensorList`, `GenericList`, or `''` for None and for everything it does not record. Up to torch 1.12
(`inputTypes` of torch/csrc/autograd/profiler_kineto.cpp, later profiler/util.cpp) the tag of the value
stood in place of `Scalar`, and any list was a `GenericList`; there are no values of scalars before 2.1.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.tensors import TORCH_NAMES, Shape, contiguous
from kerneldb.replay.wire.plan import OpCall

SCALAR: Final = "Scalar"
SCALAR_LIST: Final = "ScalarList"
TENSOR_LIST: Final = "TensorList"
GENERIC_LIST: Final = "GenericList"
ABSENT: Final = ""
INTEGER: Final = re.compile(r"-?\d+")
PART: Final = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))"
COMPLEX: Final = re.compile(rf"\(?{PART},?{PART}[ij]?\)?")

Number = bool | int | float | complex
TAGS: Final[dict[str, type[Number]]] = {"Int": int, "Double": float, "Bool": bool, "ComplexDouble": complex}
"""Scalars of old versions."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One recorded argument. `dims` and `strides` in elements; nested, one entry per tensor, for a tensor list.

    `unstrided`: the profiler had no strides of a tensor though it recorded strides: its layout is a sparse one or
    oneDNN's (`InputOutputEncoder::push` of torch/csrc/profiler/collection.cpp). `tag`: the type of a scalar whose text
    is missing, where that is known.
    """

    kind: str
    dims: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    text: str = ""
    unstrided: bool = False
    tag: type[Number] | None = None

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor was recorded (its dtype name is `kind`)."""
        return self.kind in TORCH_NAMES

    @property
    def layout(self) -> tuple[Any, ...]:
        """The strides; row-major ones where the trace has none. Of a list: one entry per tensor."""
        if len(self.strides) == len(self.dims):
            return self.strides
        return contiguous(self.dims) if self.is_tensor else tuple(map(contiguous, self.dims))


def arguments(call: OpCall) -> tuple[Argument, ...]:
    """The recorded arguments of `call`, in schema order.

    Raises UnresolvedCallError: NO_INPUTS where no types were recorded, UNREADABLE where the texts are no JSON lists.
    """
    if call.input_dtypes is None:
        raise UnresolvedCallError(Reason.NO_INPUTS, "record with record_shapes=True")
    kinds = _parse(call.input_dtypes)
    dims = _aligned(call.input_dims, len(kinds), [])
    strides = _aligned(call.input_strides, len(kinds), [])
    texts = _aligned(call.scalars, len(kinds), "")
    rows = zip(kinds, dims, strides, texts, strict=True)
    has_strides = len(_parse(call.input_strides or "[]")) == len(kinds)
    return tuple(
        Argument(SCALAR, tag=TAGS[str(kind)])
        if str(kind) in TAGS
        else Argument(str(kind), _frozen(size), _frozen(stride), str(text), has_strides and bool(size) and not stride)
        for kind, size, stride, text in rows
    )


def or_none(call: OpCall | None) -> tuple[Argument, ...]:
    """The recorded arguments, or none where they cannot be read: for calls that only serve as evidence."""
    try:
        return () if call is None else arguments(call)
    except UnresolvedCallError:
        return ()


def short_name(op: str) -> str:
    """`mm` of `aten::mm`."""
    return op.rsplit("::", 1)[-1]


def spelling(text: str) -> type[Number] | None:
    """The type that a scalar was printed from: ints have only digits, floats always '.', an exponent, inf or nan."""
    if text in {"True", "False"}:
        return bool
    if INTEGER.fullmatch(text):
        return int
    try:
        float(text)
    except ValueError:
        return complex if text and any(mark in text for mark in ("(", "j", "i,")) and COMPLEX.fullmatch(text) else None
    return float


def number(text: str) -> Number:
    """The recorded scalar. Raises UnresolvedCallError (UNREADABLE)."""
    kind = spelling(text)
    if kind is bool:
        return text == "True"
    if kind is int or kind is float:
        return kind(text)
    match = COMPLEX.fullmatch(text)
    if match is None:
        raise UnresolvedCallError(Reason.UNREADABLE, f"scalar {text!r}")
    return complex(float(match[1]), float(match[2]))


def split_list(text: str) -> list[str]:
    """The entries of `[1, 2]` as texts."""
    inner = text.strip().removeprefix("[").removesuffix("]").strip()
    return [entry.strip() for entry in inner.split(",")] if inner else []


def integers(text: str) -> Shape:
    """The entries of `[1, 2]` as integers; empty where they are something else."""
    entries = split_list(text)
    return tuple(int(entry) for entry in entries) if all(INTEGER.fullmatch(entry) for entry in entries) else ()


def _parse(text: str) -> list[Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise UnresolvedCallError(Reason.UNREADABLE, text[:80]) from error
    if not isinstance(parsed, list):
        raise UnresolvedCallError(Reason.UNREADABLE, text[:80])
    return parsed


def _aligned(text: str | None, count: int, default: object) -> list[Any]:
    """Parsed entries; `count` defaults where the field is missing (old versions) or of another length."""
    entries = _parse(text) if text else []
    return entries if len(entries) == count else [default] * count


def _frozen(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_frozen(entry) if isinstance(entry, list) else entry for entry in value)
