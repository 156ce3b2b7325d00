"""Turns the source of a Triton kernel into something to launch, compiled with the recorded constants only.

Kernels of TorchInductor are wrapped in a `CachingAutotuner` (torch/_inductor/runtime/triton_heuristics.py), which would
compile several configurations, time them, and keep the fastest: it is given exactly one, and told to look for no other.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kerneldb.replay.resolve.draft import TORCH_ERRORS, quoted
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.triton.code import INDUCTOR, Code
from kerneldb.replay.triton.constants import Constants

TUNERS: Final = {"coordinate_descent_tuning": False, "dynamic_scale_rblock": False}
LOADED: Final = re.compile(r"tl\.load\(\s*(\w+)")
STORED: Final = re.compile(r"tl\.(?:store|atomic_\w+)\(\s*(\w+)")
LOADING_ERRORS: Final = (*TORCH_ERRORS, ImportError, NameError, SyntaxError, OSError)

Run = Callable[..., Any]
Grid = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launchable:
    """A kernel ready to be launched on the current stream with its arguments in order.

    `names` are those of the arguments, `changed` those that it reads and writes.
    """

    launch: Run
    names: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()


_MADE: Final[dict[tuple[str, str, int, str], Launchable]] = {}
"""Compiled kernels by hash, constants, place among the configurations, and device."""


def launchables(code: Code, constants: Constants, grid: Grid | None, device: str) -> Iterator[Launchable]:
    """The kernel with the recorded constants; with each of its configurations where the trace has none.

    Raises UnresolvedCallError: REFUSED where the source cannot be loaded here, NO_INPUTS where a grid is needed.
    """
    module = load(code)
    kernel = getattr(module, code.name, None)
    if kernel is None:
        raise UnresolvedCallError(Reason.REFUSED, f"{code.hash} has no function {code.name}")
    if code.origin == INDUCTOR:
        yield from _of_inductor(code, kernel, constants, device)
    elif grid is None:
        raise UnresolvedCallError(Reason.NO_INPUTS, f"the grid of {code.name} is not recorded")
    else:
        yield _of_user(code, kernel, constants, grid)


@functools.cache
def load(code: Code) -> ModuleType:
    """Run the source as a module of its own. Raises UnresolvedCallError (REFUSED) with what it raised.

    The file stays until the process ends: Triton reads the sources of functions when it compiles them.
    """
    path = Path(_folder(), f"{code.hash}.py")
    found = importlib.util.spec_from_file_location(f"kerneldb_triton_{code.hash}", path)
    assert found is not None and found.loader is not None  # noqa: S101, PT018 (for the type checker: the file ends in .py)
    module = importlib.util.module_from_spec(found)
    try:
        path.write_text(code.text, encoding="utf-8")
        found.loader.exec_module(module)
    except LOADING_ERRORS as error:
        raise UnresolvedCallError(Reason.REFUSED, f"loading {code.name}: {quoted(error)}") from error
    return module


@functools.cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="kerneldb-triton-")
    atexit.register(folder.cleanup)
    return folder.name


def _of_inductor(code: Code, kernel: Any, constants: Constants, device: str) -> Iterator[Launchable]:
    for place, config in enumerate(configurations(kernel.configs, constants)):
        key = (code.hash, constants.shown(), place, device)
        if key not in _MADE:
            _MADE[key] = _alone(code, _copied(kernel), config, device)
        yield _MADE[key]


def _copied(kernel: Any) -> Any:
    """A `CachingAutotuner` of its own, since one compiles once: calls with other constants share its source."""
    made = object.__new__(type(kernel))
    made.__dict__.update(kernel.__dict__)
    made.lock = threading.Lock()
    return made


def configurations(known: Sequence[Any], constants: Constants) -> list[Any]:
    """The `triton.Config` with the recorded constants, as the source has it or made new; all of them without any."""
    named, given = constants.values, constants.numbers
    same = [one for one in known if all(getattr(one, name) == value for name, value in given.items())]
    if not named:
        return same or list(known)
    equal = [one for one in same if one.kwargs == named]
    if equal:
        return equal[:1]
    import triton

    return [triton.Config(named, **given)]


def _alone(code: Code, kernel: Any, config: Any, device: str) -> Launchable:
    """The kernel with one configuration, for this device, whatever device the source was written for."""
    import torch

    here = torch.device(device)
    index = here.index if here.index is not None else torch.cuda.current_device()
    config.found_by_coordesc = True  # the mark of a configuration that is tuned already
    kernel.configs, kernel.compile_results, kernel.launchers = [config], [], []
    kernel.inductor_meta = {**kernel.inductor_meta, **TUNERS}
    kernel.inductor_meta.pop("combo_tuning_groups", None)
    kernel.save_cache_hook = None
    kernel.device_props = _properties(torch.device("cuda", index), kernel.device_props)
    kernel.triton_meta = {**kernel.triton_meta, "device": index}

    def launch(*arguments: Any) -> Any:
        return kernel.run(*arguments, stream=torch.cuda.current_stream(index).cuda_stream)

    names = tuple(name for name in kernel.fn.arg_names if name not in config.kwargs)
    return Launchable(launch, names, frozenset(kernel.mutated_arg_names) | _changed(code))


def _properties(device: Any, recorded: Any) -> Any:
    """What TorchInductor knows of `device`; what the source says where this version has no such thing."""
    try:
        from torch._inductor.runtime.hints import DeviceProperties
    except ImportError:
        return recorded
    return DeviceProperties.create(device)


def _of_user(code: Code, kernel: Any, constants: Constants, grid: Grid) -> Launchable:
    constant = {name: _typed(value) for name, value in {**constants.values, **constants.numbers}.items()}
    options = {name: value for name, value in constant.items() if name not in kernel.arg_names}

    def launch(*arguments: Any) -> Any:
        rest = iter(arguments)
        placed = [constant[name] if name in constant else next(rest) for name in kernel.arg_names]
        return kernel[grid](*placed, **options)

    names = tuple(name for name in kernel.arg_names if name not in constant)
    return Launchable(launch, names, _changed(code))


def _typed(value: Any) -> Any:
    """`tl.float32` as Triton's own object."""
    if isinstance(value, str) and value.startswith("tl."):
        import triton.language as tl

        return getattr(tl, value.removeprefix("tl."), value)
    return value


def _changed(code: Code) -> frozenset[str]:
    """Names of the pointers that the text both loads and stores."""
    return frozenset(LOADED.findall(code.text)) & frozenset(STORED.findall(code.text))
