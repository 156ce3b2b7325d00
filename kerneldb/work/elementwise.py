"""Pointwise operators: one operation per output element, each operand read once.

`numel` is the number of elements of the output after broadcasting. FLOPs are `numel` ("1 op/element", whatever the
function costs) where the operands are floating-point or complex, unknown otherwise. Bytes are the distinct elements of
every operand (expanded dimensions once) plus the output. Operands of zero dimensions beside larger ones are not
counted: mostly they are Python numbers that travel as kernel arguments. The trace does not record results, so the
output dtype follows torch's promotion rules
(https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc); where they depend on what is not
recorded (an integer tensor with a floating-point number), bytes stay unknown. The same tensor passed twice cannot be
told from two equal ones and counts twice.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from kerneldb.work.model import Problem
from kerneldb.work.registry import model
from kerneldb.work.tensors import Tensor, broadcast, bytes_of, category, parse_integer, promote, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.work.model import NameFacts
    from kerneldb.work.tensors import Call

_CATEGORIES = ("ELEMENTWISE", "COPY", "RANDOM", "INDEXING", "FUSED")
_model = functools.partial(model, categories=_CATEGORIES)
_ONE_OP = "elementwise 1 op/element"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Integer inputs give floating-point outputs.
_FLOAT_UNARY = _names(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh asin acos atan tanh sigmoid erf erfc
    erfinv gelu silu mish elu celu selu softplus hardswish hardsigmoid log_sigmoid reciprocal logit digamma
    lgamma gelu_backward silu_backward mish_backward softplus_backward hardswish_backward
    hardsigmoid_backward sigmoid_backward tanh_backward native_dropout_backward
    """
)
# The output has the promoted dtype of the operands.
_SAME = _names(
    """
    abs neg sign sgn ceil floor round trunc frac relu relu6 hardtanh leaky_relu threshold clamp clamp_min
    clamp_max square positive add sub rsub mul maximum minimum fmax fmin remainder fmod floor_divide addcmul
    addcdiv lerp pow copysign hypot atan2 bitwise_and bitwise_or bitwise_xor bitwise_not threshold_backward
    leaky_relu_backward hardtanh_backward triu tril nan_to_num __and__ __or__ __xor__ __lshift__ __rshift__
    """
)
# The output is bool.
_PREDICATES = _names(
    """
    eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_xor logical_not signbit
    """
)
_UNARY = _names(
    """
    abs neg sign sgn ceil floor round trunc frac relu relu6 hardtanh leaky_relu threshold square positive bitwise_not
    triu tril nan_to_num isnan isinf isfinite logical_not signbit
    """
) | {base for base in _FLOAT_UNARY if not base.endswith("_backward")}
_TERNARY = _names("addcmul addcdiv lerp clamp")
_NUMERIC_ALPHA = frozenset({"add", "sub", "rsub"})


def pointwise(call: Call) -> Problem | None:
    """Arithmetic, activations and comparisons on one to three operands."""
    base = call.op.removeprefix("aten::")
    inplace = base.endswith("_") and not base.endswith("__")
    base = base[:-1] if inplace else base
    inputs = 1 if base in _UNARY else (3 if base in _TERNARY else 2)
    operands = [value for value in call.arguments[:inputs] if isinstance(value, Tensor)]
    # The tensor given as `out=` follows the schema's inputs.
    outputs = [value for value in call.arguments[inputs:] if isinstance(value, Tensor)]
    shape = broadcast([operand.dims for operand in operands])
    if not operands or shape is None:
        return None
    numel, given = math.prod(shape), operands[:1] if inplace else outputs
    out = given[0].dtype if given else _result(base, call, operands)
    is_float = any(category(operand.dtype) in ("float", "complex") for operand in operands)
    moved = total([*(operand.stored_bytes for operand in _large(operands)), bytes_of(numel, out)])
    return Problem.of_call(numel, _ONE_OP, moved, float(numel) if is_float else None)


def _large(operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """The operands without zero-dimensional ones beside larger ones."""
    return [operand for operand in operands if operand.dims] or operands


def _result(base: str, call: Call, operands: Sequence[Tensor]) -> str | None:
    """Output dtype by torch's promotion rules, or None where the trace does not settle it."""
    if base in _PREDICATES:
        return "bool"
    out = functools.reduce(promote, [operand.dtype for operand in _large(operands)])
    if category(out) in ("float", "complex"):
        mixed = any(category(operand.dtype) == "complex" for operand in operands)
        return None if mixed and (category(out) == "float" or base == "abs") else out
    if base in _FLOAT_UNARY or base == "div":
        return None
    return out if _stays_integral(base, call, operands) else None


def _stays_integral(base: str, call: Call, operands: Sequence[Tensor]) -> bool:
    """Whether no zero-dimensional or scalar operand turns an integer result into a floating-point one."""
    if any(category(operand.dtype) in ("float", "complex") for operand in operands):
        return False
    others = [value for value in call.arguments[1:] if isinstance(value, str) and value]
    numbers = others[:-1] if base in _NUMERIC_ALPHA and len(operands) > 1 else others
    return all(value.removeprefix("-").isdigit() for value in numbers)


_POINTWISE = sorted(_FLOAT_UNARY | _SAME | _PREDICATES | {"div"})
_model(*_POINTWISE, *(f"{name}_" for name in _POINTWISE))(pointwise)


@_model("where", "masked_fill", "masked_fill_")
def where(call: Call) -> Problem | None:
    """`where(condition, a, b)` and `masked_fill(self, mask, value)`: selection, no arithmetic."""
    operands = call.tensors()
    shape = broadcast([operand.dims for operand in operands])
    if len(operands) < 2 or shape is None:  # noqa: PLR2004
        return None
    values = [operand for operand in operands if operand.dtype != "bool"]
    out = functools.reduce(promote, [operand.dtype for operand in _large(values)]) if values else "bool"
    numel = math.prod(shape)
    moved = total([*(operand.stored_bytes for operand in _large(operands)), bytes_of(numel, out)])
    return Problem.of_call(numel, "elementwise select", moved)


@model("copy_", "clone", "contiguous", "_to_copy", "to", categories=(*_CATEGORIES, "MEMCPY"))
def copy(call: Call) -> Problem | None:
    """`copy_(destination, source)` reads one and writes the other; `clone(source)` writes what it reads.

    ROCm runs the copies of its runtime as kernels of category MEMCPY.
    """
    first, second = call.tensor(0), call.tensor(1)
    source = second if call.op == "aten::copy_" else first
    if first is None or source is None:
        return None
    written = first.dtype if call.op in ("aten::copy_", "aten::clone", "aten::contiguous") else None
    moved = total([source.stored_bytes, bytes_of(first.numel, written)])
    return Problem.of_call(first.numel, "copy bytes", moved)


@model(
    *("fill_", "zero_", "normal_", "uniform_", "bernoulli_", "exponential_", "random_"),
    *("log_normal_", "cauchy_", "geometric_"),
    categories=(*_CATEGORIES, "MEMSET"),
)
def fill(call: Call) -> Problem | None:
    """Operators that write their first argument and read nothing of size; on ROCm the runtime's fills, too."""
    target = call.tensor(0)
    if target is None:
        return None
    return Problem.of_call(target.numel, "fill bytes", total([bytes_of(target.stored, target.dtype)]))


@_model("native_dropout", "_fused_dropout")
def dropout(call: Call) -> Problem | None:
    """`native_dropout(x, p, train)` writes the output and a mask of one byte per element."""
    source = call.tensor(0)
    if source is None:
        return None
    moved = total([source.stored_bytes, bytes_of(source.numel, source.dtype), source.numel])
    return Problem.of_call(source.numel, _ONE_OP, moved, float(source.numel))


@_model("arange")
def arange(call: Call) -> Problem | None:
    """`arange(start, end, step, out)`: the recorded output is still empty, so the size comes from the three numbers."""
    start, end, step = (call.number(position) for position in range(3))
    if start is None or end is None or not step:
        return None
    steps = (end - start) / step
    if not 0 <= steps < 2**62:
        return None
    numel, target = math.ceil(steps), call.tensor(3)
    return Problem.of_call(numel, "fill bytes", total([bytes_of(numel, target.dtype if target else None)]))


def inductor(call: Call, name: NameFacts) -> Problem | None:
    """A kernel that torch.compile made (`triton_poi_…`, `triton_red_…`): its size from `xnumel` and `rnumel`.

    The size arguments come last; their product counts only when a recorded tensor has that many elements, because
    dynamic shapes put other integers beside them. Work and traffic stay unknown: the trace does not say which argument
    is written.
    """
    if name.category not in (None, "FUSED", "ELEMENTWISE", "REDUCTION", "NORMALIZATION", "SOFTMAX"):
        return None
    sizes = [parse_integer(value) for value in call.arguments if isinstance(value, str) and value]
    known = [size for size in sizes if size is not None and size > 0]
    numel = math.prod(known)
    if not known or len(known) != len(sizes) or numel not in {operand.numel for operand in call.tensors()}:
        return None
    return Problem.of_call(numel, "fused kernel, size only")


INDUCTOR_PREFIXES = ("triton_poi_", "triton_red_", "triton_per_")
"""Name prefixes of Inductor's pointwise, reduction and persistent-reduction kernels."""
