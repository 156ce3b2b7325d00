"""ATen functors: from the C++ name of what an elementwise, reduction or foreach kernel applies to an operation.

Operations are called as the ATen op that a replay would call: ``add``, ``rsqrt``, ``pow``, ``where``, ``sum``. Two
names cannot be told apart from here: subtraction runs `CUDAFunctor_add` with ``alpha = -1``, so it is ``add``, and a
division by a number runs `BUnaryFunctor<MulFunctor>`, so it is ``mul`` (with ``details['scalar_operand']``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kerneldb.names.dtypes import argument_types, distinct, element_type
from kerneldb.names.structure import call, split_args

_WRAPPERS = frozenset(
    (
        "gpu_kernel_impl",
        "gpu_kernel_impl_nocast",
        "gpu_index_kernel",
        "opmath_gpu_kernel_with_scalars",
        "opmath_symmetric_gpu_kernel_with_scalars",
        "BinaryFunctor",
        "AUnaryFunctor",
        "BUnaryFunctor",
        "func_wrapper_t",
        "UnaryOpFunctor",
        "_cuda_scatter_gather_internal_kernel",
    )
)
_SCALAR = {"AUnaryFunctor": "a", "BUnaryFunctor": "b"}
_ALIASES = {
    "CUDAFunctor_add": "add",
    "CUDAFunctorOnSelf_add": "add",
    "CUDAFunctorOnOther_add": "add",
    "AddFunctor": "add",
    "MulScalarFunctor": "mul",
    "DivFunctor": "div",
    "CompareEqFunctor": "eq",
    "CompareFunctor": "compare",
    "compare_scalar": "compare",
    "GeluCUDAKernelImpl": "gelu",
    "GeluBackwardCUDAKernelImpl": "gelu_backward",
    "pow_tensor": "pow",
    "pow_tensor_scalar": "pow",
    "pow_tensor_tensor": "pow",
    "pow_scalar_tensor": "pow",
    "direct_copy": "copy",
    "copy_device_to_device": "copy",
    "float16_copy": "copy",
    "bfloat16_copy": "copy",
    "bfloat16tofloat32_copy": "copy",
    "float16tofloat32_copy": "copy",
    "float8_copy": "copy",
    "float4_copy": "copy",
    "launch_clamp_scalar": "clamp",
    "launch_masked_scatter": "masked_scatter",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "div_true": "div",
    "div_floor": "div",
    "div_trunc": "div",
    "arange_cuda_out": "arange",
    "range_cuda_out": "arange",
    "linspace_cuda_out": "linspace",
    "logspace_cuda_out": "logspace",
    "mse": "mse_loss",
    "mse_backward": "mse_loss_backward",
    "smooth_l1": "smooth_l1_loss",
    "smooth_l1_backward": "smooth_l1_loss_backward",
    "huber": "huber_loss",
    "huber_backward": "huber_loss_backward",
    "masked_scale": "dropout_backward",
    "threshold": "threshold",
    "and": "all",
    "or": "any",
    "WelfordOps": "var",
    "NormTwoOps": "norm",
    "NormOneOps": "norm",
    "NormZeroOps": "norm",
    "NormOps": "norm",
    "AbsMaxOps": "norm",
    "AbsMinOps": "norm",
    "NanSumOps": "nansum",
    "ArgMaxOps": "argmax",
    "ArgMinOps": "argmin",
    "MaxNanFunctor": "max",
    "MinNanFunctor": "min",
    "MaxOps": "max",
    "MinOps": "min",
    "MinMaxOps": "aminmax",
    "max_values": "max",
    "min_values": "min",
    "index": "index",
    "index_put": "index_put",
    "index_fill": "index_fill",
    "index_copy": "index_copy",
    "_cuda_scatter_fill": "scatter",
    "_cuda_scatter_gather": "scatter",
    "plus": "add",
    "minus": "sub",
    "multiplies": "mul",
    "divides": "div",
    "maximum": "maximum",
    "minimum": "minimum",
    "batch_norm_elementwise_backward_train": "batch_norm_backward",
    "batch_norm_elementwise_backward_eval": "batch_norm_backward",
    "batch_norm_update_stats_and_invert": "batch_norm_update_stats",
    "batch_norm_calc_invstd": "batch_norm_update_stats",
    "cuda_triu_tril": "tril",
    "NonZeroOp": "nonzero",
    "TensorListScalarFunctor": "mul",
}
_SUFFIXES = re.compile(
    r"(?:_internal)?(?:_scalar_list|_list|_scalar)?(?:_gpu)?_kernel(?:_cuda)?(?:_impl)?(?:_cuda)?$|_cuda_kernel$|_cuda$|_functor$|_op$|_ops$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LAMBDA_TYPES = re.compile(r"lambda\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Functor:
    """A functor: its C++ name, the operation, the element types in the order named, and which operand is a number."""

    name: str
    operation: str
    types: tuple[str, ...]
    scalar: str | None = None
    variant: int | None = None


def operation_of(name: str) -> str:
    """Return the operation that a functor's or host function's C++ name means (``rsqrt_kernel_cuda``: rsqrt)."""
    if name in _ALIASES:
        return _ALIASES[name]
    bare = _SUFFIXES.sub("", name)
    if bare in _ALIASES:
        return _ALIASES[bare]
    bare = re.sub(r"(?:CUDAKernelImpl|KernelImpl|Functor|Ops?)$", "", bare) or bare
    snake = _CAMEL.sub("_", bare).lower()
    return _ALIASES.get(snake, snake)


def unwrap(argument: str) -> tuple[str, list[str], str | None]:
    """Follow wrappers (`gpu_kernel_impl<BinaryFunctor<..., F>>`) down to F: its name, arguments and scalar operand."""
    scalar = None
    types: list[str] = []
    name, args = call(argument)
    for _ in range(8):
        if name not in _WRAPPERS or not args:
            break
        scalar = scalar or _SCALAR.get(name)
        inner = [arg for arg in args if element_type(arg) is None and not arg.lstrip("-").isdecimal()]
        if not inner:
            break
        types = [arg for arg in args if element_type(arg) is not None] or types
        name, args = call(inner[-1] if name.endswith("Functor") else inner[0])
    return name, types + args, scalar


def read_functor(argument: str) -> Functor | None:
    """Read the functor in a template argument (canonical spelling); None where it names none."""
    name, args, scalar = unwrap(argument)
    # Documents abbreviate: "BinaryFunctor<c10::Half...MulFunctor>".
    bare = name.split("::", 1)[0].strip(".").rpartition("...")[2]
    if not (bare[:1].isalpha() or bare[:1] == "_") or bare.startswith("lambda"):
        return None
    named = argument_types(args)
    called = _lambda_types(argument)
    variant = re.search(r"::lambda\(\)#(\d+)", argument)
    return Functor(bare, operation_of(bare), distinct(named + called), scalar, int(variant[1]) if variant else None)


def _lambda_types(argument: str) -> tuple[str, ...]:
    """Return the parameter types of the innermost lambda that has typed parameters other than the element index."""
    lists = [found for found in _LAMBDA_TYPES.findall(argument) if found and found not in {"int", "int,bool"}]
    return argument_types(split_args(lists[-1])) if lists else ()
