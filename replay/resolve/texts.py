"""Text arguments, which the profiler does not record: enumerated, the most likely first; verification decides."""

from __future__ import annotations

from typing import Any, Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.equations import equations
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.schema import Parameter
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
