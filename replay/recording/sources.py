"""While recording: makes launches of users' Triton kernels readable in traces, and keeps the sources of all kernels.

`watch`: PyTorch's profiler sees operators, which a `@triton.jit` function is not: its kernel is in the trace without
its arguments. While a profiler is on, each launch is wrapped in an event `triton::NAME` with arguments, constants and
the hash of its source, by the same means as TorchInductor (`_RecordFunctionFast`); the source is kept beside.

`source_of`: the source of a user's kernel as one text: the function, those that it calls, and the constants it reads.
A `@triton.jit` function is part of a program that may need much else to be imported. Triton itself looks only
at the source of the function and at the globals that it names (`DependenciesFinder` of triton/runtime/jit.py), and so
does this module.
The text is the same for the same functions, whatever runs around them, and is named by its hash.

`redirect`, `keep`, `clean`: the sources of kernels that TorchInductor and Triton compiled while recording. The traces
name them (`kernel_file`, `kernel_hash`), and without the sources such kernels cannot be run again. Both compilers are
pointed at a cache inside the recording's folder, of which only sources are kept. Kernels that a program brings itself
(`@triton.jit`) are written there too, one file each, when they are launched while a profiler is on.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kerneldb import files
from kerneldb.errors import KerneldbError
from kerneldb.ids import code_hash
from kerneldb.replay.triton.code import AXES, literal, written

SEPARATE: Final = ("num_warps", "num__workloads")
OWN: Final = frozenset({"debug", "instrumentation_mode", "sanitize_overflow"})
RECORDED: Final = (bool, int, float)
HEADER: Final = "import triton\nimport triton.language as tl\n"
GIVEN: Final = frozenset({"triton", "tl"})
PLAIN: Final = (bool, int, float, str, type(None))
SWITCHES: Final = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug")
CACHE: Final = ".cache"
KEPT: Final = "triton"
ENDINGS: Final = frozenset({".py", ".ttir", ".source"})
CACHES: Final = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def watch(folder: Path) -> Callable[[], None]:
    """Let traces describe launches from now on, and keep sources below `folder`. Returns what ends it.

    Without Triton there is nothing to watch.
    """
    if importlib.util.find_spec("triton") is None:
        return lambda: None
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run
    sources = Sources(folder / CACHE / "user")

    def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or not _profiling():
            return launch(function, *args, grid=grid, warmup=warmup, **kwargs)
        with _event(function, sources.hash_of(function), args, grid, kwargs):
            return launch(function, *args, grid=grid, warmup=warmup, **kwargs)

    JITFunction.run = run

    def end() -> None:
        JITFunction.run = launch

    return end


class Sources:
    """Sources of functions, each written once below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, tuple[Any, str | None]] = {}

    def hash_of(self, function: Any) -> str | None:
        """The hash of a function's source, which is on disk then; None where no text can hold it."""
        if id(function) not in self._known:  # the function is kept, so that its id stays its own
            self._known[id(function)] = (function, self._write(function))
        return self._known[id(function)][1]

    def _write(self, function: Any) -> str | None:
        try:
            text = source_of(function)
        except StandaloneError:
            return None
        name = code_hash(text)
        path = self._folder / name[1:3] / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.written(path) as file:
            file.write(text.encode())
        return name


def described(function: Any, args: tuple[Any, ...], grid: Any, kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The arguments that the compiled kernel takes, in order, and what the trace says of the launch beside them."""
    bound = {one.name: one.default for one in function.params if one.has_default}
    bound |= dict(zip(function.arg_names, args, strict=False))
    bound |= {name: value for name, value in kwargs.items() if name in function.arg_names}
    constant = {one.name: bound.get(one.name) for one in function.params if one.is_constexpr}
    options = {name: value for name, value in kwargs.items() if name not in bound and value is not None}
    kept = {name: value for name, value in options.items() if name not in OWN and name not in SEPARATE}
    blocks = grid(bound) if callable(grid) else grid
    notes: dict[str, Any] = {
        "kernel_backend": "triton",
        "kernel_name": function.__name__,
        "kernel_kwargs": written({**constant, **kept}),
        "grid": str((*map(int, blocks), *([1] * (AXES - len(blocks))))),
    }
    notes |= {name: int(options[name]) for name in SEPARATE if name in options}
    return [_argument(bound.get(name)) for name in function.arg_names if name not in constant], notes


def _event(function: Any, name: str | None, args: tuple[Any, ...], grid: Any, kwargs: Mapping[str, Any]) -> Any:
    from torch._C._profiler import _RecordFunctionFast

    values, notes = described(function, args, grid, kwargs)
    known = {} if name is None else {"kernel_hash": name, "kernel_file": f"{name}.py"}
    return _RecordFunctionFast(f"triton::{function.__name__}", tuple(values), {**notes, **known})


def _argument(value: Any) -> Any:
    """Tensors and numbers as they are; None for what the profiler cannot write."""
    return value if hasattr(value, "data_ptr") or isinstance(value, RECORDED) else None


def _profiling() -> bool:
    from torch.autograd import profiler

    return bool(profiler._is_profiler_enabled)  # the flag that TorchInductor asks too


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
        if all(hasattr(value, attribute) for attribute in ("fn", "src", "__globals__")):
            if id(value) not in begun:
                _collect(value, parts, begun)
            if value.__name__ != name:
                _add(parts, name, f"{name} = {value.__name__}\n")
        elif name not in GIVEN:
            _add(parts, name, _statement(name, value))
    _add(parts, function.__name__, f"\n@triton.jit{_switches(function)}\n{function.src.rstrip()}\n")


def _add(parts: dict[str, str], name: str, text: str) -> None:
    if parts.setdefault(name, text) != text:
        raise StandaloneError(f"{name} means different things in the functions of the kernel")


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


def _switches(function: Any) -> str:
    """Arguments of the decorator that differ from none."""
    given = {name: getattr(function, name, None) for name in SWITCHES}
    texts = [f"{name}={value!r}" for name, value in given.items() if value]
    return f"({', '.join(texts)})" if texts else ""


def redirect(folder: Path) -> None:
    """Let the compilers of this process write below `folder`. Before torch is imported."""
    for variable, name in CACHES.items():
        os.environ[variable] = str((folder / CACHE / name).resolve())


def keep(folder: Path) -> list[str]:
    """Copy sources that are new into `triton/`; returns the paths of all, relative to `folder`."""
    cache = folder / CACHE
    for source in sorted(path for path in cache.rglob("*") if path.suffix in ENDINGS and path.is_file()):
        target = folder / KEPT / source.relative_to(cache)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    kept = folder / KEPT
    return sorted(path.relative_to(folder).as_posix() for path in kept.rglob("*") if path.is_file())


def clean(folder: Path) -> None:
    """Remove the caches."""
    shutil.rmtree(folder / CACHE, ignore_errors=True)
