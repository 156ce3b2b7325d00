"""From a recorded argument to the values it may have had, best first.

Text arguments, which the profiler does not record, are enumerated, the most likely first; verification decides. The
equation of an einsum comes from the permutes that einsum makes of its operands: aten/src/ATen/native/Linear.cpp gives
every label a place (those of the output first, in its order) and permutes each operand to these places, with dims of
size 1 for labels it lacks. Only how many places belong to the output stays open.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from typing import Any, Final, Never

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve import layouts, lists, recorded, windows
from kerneldb.replay.resolve.recorded import Argument, Number
from kerneldb.replay.resolve.schema import ENUM_TYPES, INTS, NUMBERS, OPTIONAL_TENSORS, TENSORS, Overload, Parameter
from kerneldb.replay.resolve.tensors import (
    Shape,
    StorageSpec,
    TensorSpec,
    contiguous,
    enum_value,
    span,
    torch_dtype,
    torch_name,
)
from kerneldb.replay.resolve.values import Known, fill_for
from kerneldb.replay.wire.plan import CallSpec

# Binary operators whose Python binding wraps a number into a 0-dim tensor of its default dtype.
WRAPPING: Final = frozenset({
    "add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "true_divide", "floor_divide", "floor_divide_",
    "pow", "pow_", "remainder", "remainder_", "fmod", "fmod_", "eq", "eq_", "ne", "ne_", "gt", "gt_", "ge", "ge_", "lt",
    "lt_", "le", "le_", "where", "maximum", "minimum", "atan2", "bitwise_and", "bitwise_and_", "bitwise_or",
    "bitwise_or_", "bitwise_xor", "bitwise_xor_", "bitwise_left_shift", "bitwise_right_shift", "__lshift__",
    "__rshift__", "logical_and", "logical_or", "logical_xor", "xlogy", "logaddexp", "copysign", "heaviside", "hypot",
})  # fmt: skip
WRAPPED_VALUES: Final[dict[str, Number]] = {"float64": 1.5, "int64": 2, "bool": True, "complex128": 1 + 1j}
USUAL_NUMBERS: Final[dict[str, dict[str, Number]]] = {
    "div": {"float64": 8.0, "int64": 8}, "true_divide": {"float64": 8.0, "int64": 8},
    "mul": {"float64": 0.5, "int64": 1}, "add": {"float64": 1e-5, "int64": 1},
}  # fmt: skip
"""What attention scores are divided by, the halves of activations, what keeps a norm from dividing by zero: with larger
products and sums the values of a step would grow from layer to layer, until they are NaN.
"""
NONE_ALLOWED: Final = frozenset({"Tensor", "Generator"})
"""Types of which None is passed also where it is not optional: a required tensor is then an undefined one."""
USUAL: Final[dict[str, Number]] = {"dim": -1, "reduction": 1, "ignore_index": -100, "training": True, "train": True}
"""Values of arguments without a default, as most calls have them: the mean of losses, the last dim of softmax."""
LONGEST: Final = {"max_q": "query", "max_k": "key"}
"""Lengths of the sequences of attention, and the tensors [batch, length, heads, dim] that have them."""
LISTED: Final = INTS | {"bool"}
# Integers of the schema that name a dtype, a layout or a memory format where a wrapper lost their type.
ENUM_NAMES: Final = {
    "dtype": "ScalarType", "out_dtype": "ScalarType", "layout": "Layout", "memory_format": "MemoryFormat",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """A value to try, and what it assumes."""

    value: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A recorded call against one overload; `device` is a torch device text, `kernels` names what it launched."""

    spec: CallSpec
    overload: Overload
    arguments: tuple[Argument, ...]
    device: str
    kernels: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        """Short name of the operator."""
        return recorded.short_name(self.spec.call.op)

    def known(self) -> Known:
        """The recorded arguments by schema name."""
        pairs = zip(self.overload.parameters, self.arguments, strict=False)
        near = tuple(one.call for one in self.spec.neighbours)
        named = {parameter.name: argument for parameter, argument in pairs}
        return Known(self.op, named, tuple(self.spec.direct()), near, tuple(self.spec.below()))


def options(problem: Problem, index: int) -> list[Option]:
    """The values to try for the argument at `index`, best first. Raises UnresolvedCallError."""
    parameter, argument = problem.overload.parameters[index], problem.arguments[index]
    if argument.is_tensor:
        return _tensor(problem, index)
    if argument.kind in {recorded.TENSOR_LIST, recorded.GENERIC_LIST} or parameter.base == OPTIONAL_TENSORS:
        if parameter.base == OPTIONAL_TENSORS:
            return [Option(list(lists.indices(problem.spec, problem.arguments[0].dims)), ("indices-from-children",))]
        if parameter.base != TENSORS:
            return _unrecorded(problem, parameter) or _opaque(parameter)
        known, name = problem.known(), parameter.name
        return [
            Option([replace(entry, fill=fill_for(known, name, entry.dtype)[0]) for entry in one.entries], one.notes)
            for one in lists.variants(problem.spec, argument, name, problem.kernels)
        ]
    if argument.kind == recorded.SCALAR:
        return [Option(_scalar(problem, parameter, argument), () if argument.text else ("scalar-unknown",))]
    if argument.kind == recorded.SCALAR_LIST:
        return [Option([recorded.number(entry) for entry in recorded.split_list(argument.text)])]
    if argument.kind == recorded.ABSENT:
        return _absent(problem, parameter)
    raise UnresolvedCallError(Reason.DTYPE, argument.kind)


def _tensor(problem: Problem, index: int) -> list[Option]:
    parameter, argument = problem.overload.parameters[index], problem.arguments[index]
    dtype, dims = torch_name(argument.kind), argument.dims
    fill, note = fill_for(problem.known(), parameter.name, dtype)
    spec = TensorSpec(dims, argument.layout, dtype, fill, storage=_least_storage(problem, index))
    if argument.unstrided:
        return _unstrided(problem, argument, spec)
    tensor = Option(spec, (note,) if note else ())
    if dims or dtype not in WRAPPED_VALUES or parameter.written or problem.op not in WRAPPING:
        return [tensor]
    differs = any(one.is_tensor and torch_name(one.kind) != dtype for one in problem.arguments)
    if index == 0 and not differs:
        return [tensor]
    number = Option(_wrapped_value(problem, index, dtype), ("wrapped-number",))
    return [number, tensor] if differs else [tensor, number]


def _unstrided(problem: Problem, argument: Argument, spec: TensorSpec) -> list[Option]:
    """A sparse tensor, or one of oneDNN."""
    count = layouts.nonzeros(problem.spec, argument)
    found = layouts.layouts(problem.spec, argument)
    return [Option(replace(spec, sparse=one, nonzeros=count), (f"layout={one}",)) for one in found]


def _wrapped_value(problem: Problem, index: int, dtype: str) -> Number:
    """The number, if the call around this one recorded it (`div(x, 2)` around `div.Tensor`), else one of its type."""
    around = recorded.or_none(problem.spec.parent)
    if len(around) == len(problem.arguments) and around[index].kind == recorded.SCALAR and around[index].text:
        return recorded.number(around[index].text)
    return USUAL_NUMBERS.get(problem.op.rstrip("_"), WRAPPED_VALUES).get(dtype, WRAPPED_VALUES[dtype])


def _least_storage(problem: Problem, index: int) -> int:
    """`as_strided` sees past its input: size, stride and offset are arguments of its own."""
    if index or problem.op not in {"as_strided", "as_strided_", "as_strided_scatter", "as_strided_copy"}:
        return 0
    known, own = problem.known(), problem.arguments[0]
    size, stride = (recorded.integers(known.named[name].text) for name in ("size", "stride"))
    needed = span(size, stride) + known.value("storage_offset", 0)
    return needed if needed > span(own.dims, own.layout) else 0


def _scalar(problem: Problem, parameter: Parameter, argument: Argument) -> Any:
    """The recorded value in the type of the schema; where none was recorded, one that is usual."""
    if argument.text == "":
        return _usual(problem.known(), parameter, argument)
    value = recorded.number(argument.text)
    enum = parameter.base if parameter.base in ENUM_TYPES else ENUM_NAMES.get(parameter.name)
    if enum is not None and parameter.base in ENUM_TYPES | INTS and isinstance(value, int):
        return enum_value(enum, value)
    return float(value) if parameter.base == "float" and not isinstance(value, complex) else value


def _usual(known: Known, parameter: Parameter, argument: Argument) -> Any:
    """A value that the trace does not have: as many groups as the channels show, the default, or what is common."""
    if parameter.name == "groups":
        return max(windows.channels(known) // max(known.size("weight", 1), 1), 1) if "transpose" not in known.op else 1
    if parameter.name in LONGEST:
        return known.size(LONGEST[parameter.name], 1)
    is_number = parameter.base in NUMBERS  # None would have been recorded as such
    if parameter.default is not None or ((parameter.has_default or parameter.optional) and not is_number):
        return parameter.default
    if parameter.base == "ScalarType":
        return torch_dtype("float32")
    if is_number and argument.tag is not None:
        return argument.tag(1)
    plain: dict[str, Number] = {"bool": False, "float": 1.0, "int": 0, "SymInt": 0}
    return USUAL.get(parameter.name, plain.get(parameter.base, 1))


def _unrecorded(problem: Problem, parameter: Parameter) -> list[Option]:
    """The values that a list of integers may have had, by its name."""
    if parameter.base.removeprefix("List[").removesuffix("]") not in LISTED:
        return []
    found = windows.unrecorded(problem.known(), parameter.name)
    return [Option(values, ("list-unknown",)) for values in found]


def _opaque(parameter: Parameter) -> Never:
    raise UnresolvedCallError(Reason.OPAQUE, f"{parameter.name}: {parameter.base}")


def _absent(problem: Problem, parameter: Parameter) -> list[Option]:
    """`''`: None, or something that the profiler does not record."""
    if parameter.base == "str":
        return [Option(text, (f"string={text}",)) for text in texts(parameter, problem.spec)]
    if parameter.base == "Device":
        return _devices(problem, parameter)
    if parameter.base == "Storage":
        return [Option(_storage(problem))]
    if parameter.optional or parameter.base in NONE_ALLOWED:
        return [Option(None)]
    if parameter.base.startswith("List["):
        return _dropped(problem, parameter)
    if parameter.has_default:
        return [Option(parameter.default)]
    if parameter.base in INTS:
        return [Option(_usual(problem.known(), parameter, Argument(recorded.SCALAR)), ("scalar-unknown",))]
    _opaque(parameter)


def _devices(problem: Problem, parameter: Parameter) -> list[Option]:
    """The device of the run, and None: that of the tensors beside it, or the host where there are none."""
    import torch

    passed = any(one.is_tensor or one.kind == recorded.TENSOR_LIST for one in problem.arguments)
    there, none = Option(torch.device(problem.device), ("device",)), Option(None)
    if not parameter.optional:
        return [there]
    if problem.device == "cpu":
        return [none]
    if passed:
        return [none, there] if problem.op.startswith("sparse_") else [none]  # these take None for the host
    return [there, none]


def _dropped(problem: Problem, parameter: Parameter) -> list[Option]:
    """A scalar list of more than 30 entries, or one of torch 1.13 and 2.0, which record none."""
    if usual := _unrecorded(problem, parameter):
        return usual
    element = parameter.base.removeprefix("List[").removesuffix("]")
    if element in {*NUMBERS, "float"}:
        return [Option([1.0] * count, ("scalar-list-guess",)) for count in _list_lengths(problem)]
    found = _piece_sizes(problem) if problem.op.startswith("split_with_sizes") else None
    found = found or (_result_dims(problem) if element in INTS else None)
    if found is not None:
        return [Option(found, ("list-from-children",))]
    raise UnresolvedCallError(Reason.LIST_DROPPED, f"{parameter.name} of {problem.spec.call.op}")


def _storage(problem: Problem) -> StorageSpec:
    """As large as the size, stride and offset passed beside it need; else as the tensor that takes it."""
    known, own = problem.known(), problem.arguments[0]
    size = recorded.integers(known.named["size"].text) if "size" in known.named else own.dims
    stride = recorded.integers(known.named["stride"].text) if "stride" in known.named else ()
    elements = span(size, stride if len(stride) == len(size) else contiguous(size)) + known.value("storage_offset", 0)
    return StorageSpec(elements, torch_name(own.kind))


def _list_lengths(problem: Problem) -> list[int]:
    """The lengths that the tensor lists beside it may have."""
    for parameter, argument in zip(problem.overload.parameters, problem.arguments, strict=False):
        if argument.kind == recorded.TENSOR_LIST:
            return [len(found.entries) for found in lists.variants(problem.spec, argument, parameter.name)]
    raise UnresolvedCallError(Reason.LIST_DROPPED, problem.spec.call.op)


def _piece_sizes(problem: Problem) -> list[int]:
    """Each piece is an as_strided (or narrow) of its own."""
    axis = problem.known().value("dim", 0)
    pieces = [child for child in problem.spec.children if child.call.op == "aten::as_strided"]
    shapes = [(one.times, recorded.integers(text.text)) for one in pieces for text in recorded.or_none(one.call)[1:2]]
    sizes = [size[axis] for times, size in shapes for _ in range(times) if -len(size) <= axis < len(size)]
    return sizes if sum(sizes) == problem.known().size("self", axis) else []


def _result_dims(problem: Problem) -> list[int] | None:
    made = (recorded.or_none(call)[:1] for call in problem.spec.below() if call.op == "aten::empty")
    sizes = (list(recorded.integers(one.text)) for first in made for one in first if one.kind == recorded.SCALAR_LIST)
    return next(sizes, None)


TEXT_VALUES: Final[dict[str, tuple[str | None, ...]]] = {
    "rounding_mode": ("floor", "trunc", None),
    "approximate": ("none", "tanh"),
    "reduce": ("sum", "amax", "amin", "prod", "mean"),
    "mode": ("constant", "reflect", "replicate", "circular"),
    "pad_mode": ("reflect", "constant"),
    "indexing": ("ij", "xy"),
    "side": (None, "left", "right"),
    "padding": ("same", "valid"),
    "padding_mode": ("zeros", "border", "reflection"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "UPLO": ("L", "U"),
    "ord": ("fro", "nuc"),
    "reduce_op": ("sum", "avg"),
    "kv_cache_dtype": ("auto", "fp8"),
    "activation": ("silu", "gelu"),
    "norm": (None, "ortho", "forward"),
}
OPERATOR_TEXTS: Final[dict[str, dict[str, tuple[str | None, ...]]]] = {
    operator: {name: values}
    for operators, name, values in (
        (("linalg_lstsq",), "driver", (None, "gels", "gelsd", "gelss", "gelsy")),
        (("linalg_svd", "_linalg_svd", "linalg_svdvals"), "driver", (None, "gesvd", "gesvdj", "gesvda")),
        (("linalg_qr",), "mode", ("reduced", "complete", "r")),
        (("index_reduce", "index_reduce_"), "reduce", ("prod", "mean", "amax", "amin")),
        (("scatter", "scatter_"), "reduce", ("add", "multiply")),
        (("segment_reduce", "_segment_reduce_backward"), "reduce", ("sum", "mean", "max", "min", "prod")),
        (("_sparse_mm", "_sparse_mm_reduce_impl", "_sparse_mm_reduce_impl_backward"), "reduce",
         ("sum", "mean", "amax", "amin")),
        (("linalg_cond",), "p", ("fro", "nuc")),
        (("_print",), "s", ("replay",)),
    )
    for operator in operators
}  # fmt: skip
"""Of arguments whose values are others than those that their name has elsewhere."""
FREE: Final = frozenset({"assert_msg", "msg", "message", "label", "name", "api_name"})
PADDING: Final = {"reflection_pad": "reflect", "replication_pad": "replicate"}
PARENTS: Final = {"floor_divide": "floor", "scatter_add": "sum", "scatter_mean": "mean", **PADDING}
CHILDREN: Final = {**PADDING, "constant_pad": "constant"}
TRANSFORMS: Final = frozenset({"_fft_r2c", "_fft_c2c", "_fft_c2r"})
NORMS: Final = {True: (None, "ortho", "forward"), False: ("forward", "ortho", None)}
"""Whether a transform is a forward one, and the norm for each value of `fft_norm_mode`: none, 1 / √n, 1 / n
(aten/src/ATen/native/SpectralOps.cpp). None is "backward"."""
LETTERS: Final = string.ascii_lowercase


def texts(parameter: Parameter, spec: CallSpec) -> tuple[str | None, ...]:
    """The values to try for a text argument, best first. Raises UnresolvedCallError (TEXT) where any would do."""
    own = OPERATOR_TEXTS.get(recorded.short_name(spec.call.op), TEXT_VALUES)
    values: list[Any] = list(equations(spec) if parameter.name == "equation" else own.get(parameter.name, ()))
    for likely in [*([parameter.default] if parameter.has_default else []), *_hints(spec)]:
        if likely in values:
            values = [likely, *(value for value in values if value != likely)]
    if values:
        return tuple(values)
    if parameter.has_default or parameter.optional:
        return (parameter.default,)
    if parameter.name in FREE:
        return ("replay",)
    raise UnresolvedCallError(Reason.TEXT, f"{parameter.name} of {spec.call.op}")


def _hints(spec: CallSpec) -> list[str]:
    """Values that the names of the call around it, or of the calls below it, give away; the strongest last."""
    parent = recorded.short_name(spec.parent.op) if spec.parent is not None else ""
    below = [recorded.short_name(call.op) for call in spec.below()]
    hints = [value for start, value in CHILDREN.items() if any(name.startswith(start) for name in below)]
    if (norm := _norm(spec)) is not None:
        hints.append(norm)
    return hints + [value for start, value in PARENTS.items() if parent.startswith(start)]


def _norm(spec: CallSpec) -> str | None:
    """The norm of a transform, from the mode that it passes on; None where that is the default, or is not told."""
    named = (dict(zip(("self", "dim", "mode"), recorded.or_none(call), strict=False)) for call in spec.below()
             if recorded.short_name(call.op) in TRANSFORMS)  # fmt: skip
    modes = (int(one["mode"].text) for one in named if "mode" in one and recorded.INTEGER.fullmatch(one["mode"].text))
    norms = NORMS[not recorded.short_name(spec.call.op).startswith("fft_i")]
    return next((norms[mode] for mode in modes if 0 <= mode < len(norms)), None)


def equations(spec: CallSpec) -> tuple[str, ...]:
    """The equations that fit the permutes, most likely first; none where the permutes are missing."""
    operands = next((one.dims for one in recorded.or_none(spec.call) if one.kind == recorded.TENSOR_LIST), ())
    # The permute of each operand, in order.
    permutes = [recorded.or_none(call) for call in spec.direct() if call.op == "aten::permute"]
    orders: list[Shape] = []
    for dims in operands:
        place = next((at for at, one in enumerate(permutes) if _widened(one[0].dims, dims)), None)
        if place is not None:
            orders.append(recorded.integers(permutes.pop(place)[1].text))
    if not operands or len(orders) < len(operands):
        return ()
    # the label of a dim is the letter of its place
    places = [[order.index(axis) for axis, _ in enumerate(dims)] for order, dims in zip(orders, operands, strict=True)]
    sides = ["".join(LETTERS[place] for place in one) for one in places]
    counts = sorted(range(max(map(len, orders)) + 1), key=lambda count: _equation_rank(sides, count))
    return tuple(f"{','.join(sides)}->{LETTERS[:count]}" for count in counts)


def _widened(wide: Shape, dims: Shape) -> bool:
    return wide[: len(dims)] == dims and set(wide[len(dims) :]) <= {1}


def _equation_rank(sides: list[str], count: int) -> tuple[int, int]:
    """Labels that two operands share are summed when they come last; a label of a single operand rarely is."""
    summed = LETTERS[count : max(len(set("".join(sides))), count)]
    alone = sum(1 for label in summed if sum(label in side for side in sides) == 1)
    return alone if len(sides) > 1 else 0, -1 if summed and not alone else 0
