"""Text arguments, which the profiler does not record: enumerated, the most likely first; verification decides.

The equation of an einsum, which is not recorded, from the permutes that einsum makes of its operands.

aten/src/ATen/native/Linear.cpp gives every label a place (those of the output first, in its order) and permutes each
operand to these places, with dims of size 1 for labels it lacks. Only how many places belong to the output stays open.
"""

from __future__ import annotations

import string
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.schema import Parameter
from kerneldb.replay.resolve.tensors import Shape
from kerneldb.replay.wire.plan import CallSpec

VALUES: Final[dict[str, tuple[str | None, ...]]] = {
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
}
FREE: Final = frozenset({"assert_msg", "msg", "message", "label", "name"})
PADDING: Final = {"reflection_pad": "reflect", "replication_pad": "replicate"}
PARENTS: Final = {"floor_divide": "floor", "scatter_add": "sum", "scatter_mean": "mean", **PADDING}
CHILDREN: Final = {**PADDING, "constant_pad": "constant"}
LETTERS: Final = string.ascii_lowercase


def texts(parameter: Parameter, spec: CallSpec) -> tuple[str | None, ...]:
    """The values to try for a text argument, best first. Raises UnresolvedCallError (TEXT) where any would do."""
    values: list[Any] = list(equations(spec) if parameter.name == "equation" else VALUES.get(parameter.name, ()))
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
    return hints + [value for start, value in PARENTS.items() if parent.startswith(start)]


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
