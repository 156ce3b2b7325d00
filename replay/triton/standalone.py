"""The source of a user's Triton kernel as one text: the function, those that it calls, and the constants it reads.

A `@triton.jit` function stands somewhere in a program that may need much else to be imported. Triton itself looks only
at the source of the function and at the globals that it names (`DependenciesFinder` of triton/runtime/jit.py), and so
does this module.
The text is the same for the same functions, whatever runs around them, and is named by its hash.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from kerneldb.errors import KerneldbError
from kerneldb.replay.triton.constants import literal

HEADER: Final = "import triton\nimport triton.language as tl\n"
GIVEN: Final = frozenset({"triton", "tl"})
PLAIN: Final = (bool, int, float, str, type(None))
SWITCHES: Final = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug")


class StandaloneError(KerneldbError):
    """The functions of a kernel mean different things by one name, so that one text cannot hold them."""


def source_of(function: Any) -> str:
    """The text of a `triton.JITFunction` with all that it needs, in the order in which it is needed.

    Raises StandaloneError.
    """
    parts: dict[str, str] = {}
    _collect(function, parts, set())
    imports = sorted(text for text in parts.values() if text.startswith(("import ", "from ")))
    rest = [text for text in parts.values() if not text.startswith(("import ", "from "))]
    return "\n".join([HEADER + "".join(imports), *rest])


def _collect(function: Any, parts: dict[str, str], begun: set[int]) -> None:
    begun.add(id(function))
    for name, value in _globals_of(function):
        if _is_jit(value):
            if id(value) not in begun:
                _collect(value, parts, begun)
            if value.__name__ != name:
                _add(parts, name, f"{name} = {value.__name__}\n")
        elif name not in GIVEN:
            _add(parts, name, _statement(name, value))
    _add(parts, function.__name__, f"\n@triton.jit{_switches(function)}\n{function.src.rstrip()}\n")


def _add(parts: dict[str, str], name: str, text: str) -> None:
    if parts.setdefault(name, text) != text:
        message = f"{name} means different things in the functions of the kernel"
        raise StandaloneError(message)


def _globals_of(function: Any) -> Iterator[tuple[str, Any]]:
    """Names that the function reads from around it, with their values, in order of appearance."""
    around = {**function.__globals__, **inspect.getclosurevars(function.fn).nonlocals}
    tree = ast.parse(function.src)
    local = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    local |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    for name in dict.fromkeys(names):
        if name not in local and name in around:
            yield name, around[name]


def _statement(name: str, value: Any) -> str:
    """An import or an assignment that gives `name` its value; constants become `tl.constexpr`, as Triton wants them."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}\n"
    kind = type(value).__name__
    if kind == "constexpr":
        return f"{name} = tl.constexpr({literal(value.value)})\n"
    if kind == "dtype":
        return f"{name} = {literal(value)}\n"
    if isinstance(value, PLAIN):
        return f"{name} = tl.constexpr({value!r})\n"
    found = getattr(value, "__qualname__", getattr(value, "__name__", name)).split(".")[0]
    return f"from {getattr(value, '__module__', 'builtins')} import {found} as {name}\n"


def _is_jit(value: Any) -> bool:
    return all(hasattr(value, attribute) for attribute in ("fn", "src", "__globals__"))


def _switches(function: Any) -> str:
    """Arguments of the decorator that differ from none."""
    given = {name: getattr(function, name, None) for name in SWITCHES}
    texts = [f"{name}={value!r}" for name, value in given.items() if value]
    return f"({', '.join(texts)})" if texts else ""
