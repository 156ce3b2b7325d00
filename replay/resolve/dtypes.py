"""Dtypes in every spelling of PyTorch's profiler, and the enums that it prints as integers.

Sources: `scalarTypeToTypeMeta().name()` (C++ type names, which differ between compilers) for tensors;
c10/core/ScalarType.h, Layout.h and MemoryFormat.h for the integers.
"""

from __future__ import annotations

from typing import Any, Final

from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError

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


def torch_name(name: str) -> str:
    """`float16` for `c10::Half`. Raises UnresolvedCallError (DTYPE)."""
    if name not in TORCH_NAMES:
        raise UnresolvedCallError(Reason.DTYPE, name)
    return TORCH_NAMES[name]


def is_integer(dtype: str) -> bool:
    """Whether a torch dtype name is one of integers (bool is not)."""
    return dtype in INTEGERS


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
