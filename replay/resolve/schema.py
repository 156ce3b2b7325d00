"""Operator schemas of the torch that runs here, as plain values."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError

# Recorded without their namespace by autograd's VariableType (torch/csrc/autograd/VariableTypeManual.cpp).
BARE_NAMES: Final = {"detach": "aten::detach", "detach_": "aten::detach_"}
AUTOGRAD_PREFIXES: Final = ("autograd::", "torch::")


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
    if not namespace or name.startswith(AUTOGRAD_PREFIXES):
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
