"""Makes launches of users' Triton kernels readable in PyTorch traces, in the way in which those of TorchInductor are.

PyTorch's profiler sees operators, and a `@triton.jit` function is none: its kernel stands in the trace without its
arguments. While a profiler is on, each launch is wrapped in an event `triton::NAME` with arguments, constants and the
hash of its source, by the same means as TorchInductor (`_RecordFunctionFast`); the source is kept beside.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kerneldb.ids import code_hash
from kerneldb.replay.triton.constants import AXES, written
from kerneldb.replay.triton.standalone import StandaloneError, source_of

SEPARATE: Final = ("num_warps", "num_stages")
OWN: Final = frozenset({"debug", "instrumentation_mode", "sanitize_overflow"})
RECORDED: Final = (bool, int, float)


def watch(folder: Path) -> Callable[[], None]:
    """Describe launches from now on, and keep sources as `folder/ab/HASH.py`. Returns what ends it.

    Without Triton there is nothing to watch.
    """
    if importlib.util.find_spec("triton") is None:
        return lambda: None
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run
    sources = Sources(folder)

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
        path.write_text(text, encoding="utf-8")
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
    """Tensors and numbers as they are; what the profiler cannot write stands as None."""
    return value if hasattr(value, "data_ptr") or isinstance(value, RECORDED) else None


def _profiling() -> bool:
    from torch.autograd import profiler

    return bool(profiler._is_profiler_enabled)  # the flag that TorchInductor asks too
