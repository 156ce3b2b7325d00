"""Element types: from the spellings of C++, CUDA, HIP, CUTLASS, cuBLAS names and Triton to one set of names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kerneldb.names.model import Facts

_SPELLINGS = {
    "fp16": "Half __half half half_t __half2 half2 f16 fp16 float16 _Float16 float16_t Fp16 fp16_t",
    "bf16": "BFloat16 __nv_bfloat16 nv_bfloat16 __hip_bfloat16 hip_bfloat16 bfloat16_t bfloat16 __bf16 bf16 "
    "__nv_bfloat162 Bfloat16 bhalf_t bf16_t",
    "fp32": "float float32 f32 fp32 float2 float4 float32_t Fp32",
    "fp64": "double float64 f64 fp64 double2",
    "tf32": "tfloat32_t tf32 xf32",
    "fp8_e4m3": "Float8_e4m3fn Float8_e4m3 __nv_fp8_e4m3 float_e4m3_t fp8_e4m3 e4m3 E4m3 fp8e4m3 fp8e4nv f8_ocp_t",
    "fp8_e5m2": "Float8_e5m2 __nv_fp8_e5m2 float_e5m2_t fp8_e5m2 e5m2 E5m2 fp8e5m2 fp8e5 bf8_ocp_t",
    "fp8_e4m3fnuz": "Float8_e4m3fnuz __hip_fp8_e4m3_fnuz fp8e4b8 f8_fnuz_t",
    "fp8_e5m2fnuz": "Float8_e5m2fnuz __hip_fp8_e5m2_fnuz fp8e5b16 bf8_fnuz_t",
    "fp8": "f8 fp8 fp8_t",
    "fp4": "f4 fp4 E2m1 e2m1 float_e2m1_t nvfp4 f4x2_pk_t",
    "mxfp8": "MxE4m3 mxfp8",
    "mxfp4": "MxE2m1 mxfp4",
    "int8": "int8_t int8 i8 s8 char",
    "uint8": "uint8_t uint8 u8",
    "int16": "short int16_t int16 i16",
    "uint16": "uint16_t uint16",
    "int32": "int int32_t int32 i32 s32",
    "uint32": "unsigned uint32_t uint32",
    "int64": "long int64_t int64 i64",
    "uint64": "uint64_t uint64",
    "bool": "bool",
    "complex64": "cuComplex complex64 cuFloatComplex",
    "complex128": "cuDoubleComplex complex128",
}
_PHRASES = {
    "signed char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "short int": "int16",
    "short unsigned int": "uint16",
    "long int": "int64",
    "long unsigned int": "uint64",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}
_TABLE = {word: dtype for dtype, words in _SPELLINGS.items() for word in words.split()} | _PHRASES
# The letters of BLAS routines (sgemm, dgemm) and of nvjet's names; the 8-bit ones are inferred, not published.
_LETTERS = {
    "h": "fp16",
    "t": "bf16",
    "s": "fp32",
    "d": "fp64",
    "c": "complex64",
    "z": "complex128",
    "q": "fp8_e4m3",
    "r": "fp8_e5m2",
    "i": "int8",
}
_DECORATION = re.compile(r"(?: const)?[*&]*$")
_PACKED = re.compile(
    r"mxfp4|mxfp8|tf32|xf32|bf16|fp16|f16|fp32|f32|f64|e4m3|e5m2|e2m1|int8|i8|s8|u8|i32|s32|f8|fp8|fp4|f4"
)


def element_type(spelling: str) -> str | None:
    """Return the element type that a C++ type (pointers and ``const`` allowed) or a token such as ``f16`` names."""
    found = _TABLE.get(spelling)
    if found is None and spelling[-1:] in {"*", "&", "t"}:
        found = _TABLE.get(_DECORATION.sub("", spelling))
    return found


def letter_type(letter: str) -> str | None:
    """Return the element type of a BLAS or nvjet letter, such as ``h`` for fp16."""
    return _LETTERS.get(letter)


def packed_types(text: str) -> tuple[str, ...]:
    """Read element types written without a gap: ``bf16bf16`` or ``tf32f32_tf32f32_f32``; each once, in order."""
    return distinct(_TABLE[token] for token in _PACKED.findall(text))


def distinct(types: Iterable[str | None]) -> tuple[str, ...]:
    """Return the types named, each once, in order."""
    return tuple(dict.fromkeys(dtype for dtype in types if dtype is not None))


def argument_types(args: Iterable[str]) -> tuple[str, ...]:
    """Return the element types among template arguments that are types themselves, each once, in order."""
    return distinct(element_type(arg) for arg in args)


_INNER = re.compile(r"(?<=[<,])\w+(?=[,>])")
INDEX_TYPES = frozenset(("int32", "int64", "uint32", "bool"))
"""Types of indices and masks, which templates name beside those of elements."""


def inner_types(text: str, without: Collection[str] = INDEX_TYPES) -> tuple[str, ...]:
    """Return the element types among template arguments at any depth of a canonical name, each once, in order."""
    return tuple(dtype for dtype in argument_types(_INNER.findall(text)) if dtype not in without)


def typed(types: Iterable[str | None]) -> Facts:
    """The facts of element types in the order named: the first is the one that is computed on."""
    found = distinct(types)
    return {"dtypes": found, "dtype": found[0] if found else None}


def main_type(types: Iterable[str]) -> str | None:
    """Return the type computed on: the first that is not bool (a mask) or an index type; else the first."""
    listed = list(types)
    values = [dtype for dtype in listed if dtype not in {"bool", "uint32"}]
    return next(iter(values or listed), None)
