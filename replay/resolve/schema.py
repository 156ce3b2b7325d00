"""Operator schemas of the torch that runs here, and which overload was called.

`ranked` compares recorded arity and types with every schema of the operator: the lowest penalty first.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import Argument, Number, spelling, split_list

# Recorded without their namespace by autograd's VariableType (torch/csrc/autograd/VariableTypeManual.cpp).
BARE_NAMES: Final = {"detach": "aten::detach", "detach_": "aten::detach_"}
INTS: Final = frozenset({"int", "SymInt"})
NUMBERS: Final = frozenset({"number", "Scalar"})
ENUM_TYPES: Final = frozenset({"ScalarType", "Layout", "MemoryFormat"})
UNRECORDED: Final = frozenset({"str", "Device", "Generator", "Stream", "Dimname", "Storage", "Layout"})
SCALARS: Final = INTS | NUMBERS | ENUM_TYPES | {"float", "bool"}
EXACT: Final[dict[str, type[Number]]] = {"int": int, "SymInt": int, "float": float, "bool": bool}
"""The spelling that a type asks for; other numbers may be spelled in any way."""
OPTIONAL_TENSORS: Final = "List[Optional[Tensor]]"
TENSORS: Final = "List[Tensor]"

ANY_NUMBER: Final = 1.0
NAMES: Final = 5.0
OUT: Final = 0.5
MISSING: Final = 4.0


@dataclass(frozen=True, slots=True)
class Parameter:
    """A schema argument. `base` is its type without Optional: Tensor, int, List[int], ScalarType and so on.

    `out` is an out= argument, `written` one that the operator changes in place.
    """

    name: str
    base: str
    optional: bool
    default: Any
    has_default: bool
    keyword: bool
    out: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Overload:
    """One overload of an operator. `name` as in `aten::add.Tensor`, `function` the callable OpOverload."""

    name: str
    function: Any
    parameters: tuple[Parameter, ...]
    takes_names: bool

    @property
    def has_out(self) -> bool:
        """Whether it writes into tensors passed as out=."""
        return any(parameter.out for parameter in self.parameters)


@functools.cache
def overloads(op: str) -> tuple[Overload, ...]:
    """The overloads of the recorded operator name `op`, in registration order; none where torch has none."""
    import torch

    name = BARE_NAMES.get(op, op)
    namespace, _, operator = name.rpartition("::")
    if not namespace or name.startswith(("autograd::", "torch::")):
        return ()
    try:
        packet = getattr(getattr(torch.ops, namespace), operator)
        names = packet.overloads()
    except (AttributeError, RuntimeError):
        return ()
    return tuple(_overload(name, getattr(packet, overload)) for overload in names)


def load_libraries(modules: Iterable[str]) -> None:
    """Import the modules that register custom operators. Raises UnresolvedCallError (MODULE)."""
    for module in modules:
        try:
            importlib.import_module(module)
        except (ImportError, OSError, RuntimeError) as error:
            raise UnresolvedCallError(Reason.MODULE, f"{module} ({error})") from error
    overloads.cache_clear()


def _overload(name: str, function: Any) -> Overload:
    schema = function._schema
    parameters = tuple(_parameter(argument) for argument in schema.arguments)
    label = function._overloadname
    takes_names = "Dimname" in str(schema) or label.endswith("names")
    return Overload(f"{name}.{label}", function, parameters, takes_names)


def _parameter(argument: Any) -> Parameter:
    text = str(argument.real_type)
    optional = text.startswith("Optional[")
    return Parameter(
        name=argument.name,
        base=text.removeprefix("Optional[").removesuffix("]") if optional else text,
        optional=optional,
        default=argument.default_value if argument.has_default_value() else None,
        has_default=bool(argument.has_default_value()),
        keyword=bool(argument.kwarg_only),
        out=bool(argument.is_out),
        written=argument.alias_info is not None and bool(argument.alias_info.is_write),
    )


def ranked(candidates: tuple[Overload, ...], arguments: tuple[Argument, ...]) -> list[Overload]:
    """The overloads that fit, best first.

    The dispatcher records every schema argument, defaults filled in, so the arity must be equal. Where none fits, the
    trace may come from another version of torch: then trailing arguments may be missing or surplus.
    """
    for drift in (False, True):
        scored = ((penalty(overload, arguments, drift=drift), overload) for overload in candidates)
        fits = [(score, overload) for score, overload in scored if score is not None]
        if fits:
            return [overload for _, overload in sorted(fits, key=lambda fit: fit[0])]
    return []


def penalty(overload: Overload, arguments: tuple[Argument, ...], *, drift: bool = False) -> float | None:
    """How badly the recorded arguments fit `overload`: 0 is a perfect fit, None no fit."""
    total = _arity_penalty(overload, arguments, drift=drift)
    if total is None:
        return None
    for parameter, argument in zip(overload.parameters, arguments, strict=False):
        part = argument_penalty(parameter, argument)
        if part is None:
            return None
        total += part
    return total + NAMES * overload.takes_names + OUT * overload.has_out


def _arity_penalty(overload: Overload, arguments: tuple[Argument, ...], *, drift: bool) -> float | None:
    want, have = len(overload.parameters), len(arguments)
    if want == have:
        return 0.0
    if not drift:
        return None
    if have < want:
        rest = overload.parameters[have:]
        return MISSING + want - have if all(one.has_default or one.optional for one in rest) else None
    surplus = all(argument.kind in {recorded.ABSENT, recorded.SCALAR} for argument in arguments[want:])
    return 8.0 + have - want if surplus else None


def argument_penalty(parameter: Parameter, argument: Argument) -> float | None:
    """How badly one recorded argument fits one schema argument; None: not at all."""
    base = parameter.base
    if argument.is_tensor:
        return 0.0 if base == "Tensor" else None
    if argument.kind == recorded.ABSENT:
        return _absent(parameter)
    if argument.kind == recorded.SCALAR:
        if argument.text == "":  # versions before 2.1 record no scalars
            differs = argument.tag is not None and EXACT.get(base, argument.tag) is not argument.tag
            return 1.0 if base in SCALARS and not differs else None
        kind, wanted = spelling(argument.text), int if base in ENUM_TYPES else EXACT.get(base)
        if wanted is not None:
            return 0.0 if kind is wanted else None
        return ANY_NUMBER if base in NUMBERS and kind is not None else None
    if argument.kind == recorded.SCALAR_LIST:
        return _scalar_list(base, split_list(argument.text))
    if argument.kind == recorded.TENSOR_LIST:
        return {TENSORS: 0.0, OPTIONAL_TENSORS: 1.0}.get(base)
    return 1.0 if argument.kind == recorded.GENERIC_LIST and base.startswith("List[") else None


def _absent(parameter: Parameter) -> float | None:
    """`''`: None, or a type that is not recorded, or a scalar list of more than 30 entries; never a tensor list."""
    base = parameter.base
    if base == "Tensor":
        return 0.0 if parameter.optional else 3.0
    if parameter.optional or base in UNRECORDED or base == OPTIONAL_TENSORS:
        return 0.0
    if base.startswith("__torch__") or base in INTS:  # torch 2.1 writes no symbolic sizes
        return 2.0
    return 1.0 if base.startswith("List[") and base != TENSORS else None


def _scalar_list(base: str, entries: list[str]) -> float | None:
    if not base.startswith("List["):
        return None
    element = base.removeprefix("List[").removesuffix("]")
    kinds, wanted = {spelling(entry) for entry in entries}, EXACT.get(element)
    if wanted is not None:
        empty = 0.0 if wanted is int else 1.0
        return (0.0 if kinds == {wanted} else None) if entries else empty
    return ANY_NUMBER if element in NUMBERS and None not in kinds else None
