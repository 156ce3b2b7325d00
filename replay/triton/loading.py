"""Turns the source of a Triton kernel into something to launch, compiled with the recorded constants only.

Kernels of TorchInductor are wrapped in a `CachingAutotuner` (torch/_inductor/runtime/triton_heuristics.py), which would
compile several configurations, time them, and keep the fastest: it is given exactly one, and its search for others is
off.

Of kernels whose source is lost, the operators in the kernel's name are compiled again. TorchInductor calls a kernel
`triton_poi_fused_add_mul_1` after the operators in it, in alphabetical order (`get_fused_kernel_name` of
torch/_inductor/utils.py). The operators are put in each order, over the recorded inputs, and compiled. A source with
the recorded hash is the lost one, and runs with the recorded constants. Otherwise the first order that compiles runs:
the same operators over the same inputs by another kernel.

Only chains of elementwise operators are made so; reductions and templates are not.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kerneldb.ids import code_hash
from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.calls import TORCH_ERRORS, quoted
from kerneldb.replay.triton.code import INDUCTOR, Code, Constants

TUNERS: Final = {"coordinate_descent_tuning": False, "dynamic_scale_rblock": False}
LOADED: Final = re.compile(r"tl\.load\(\s*(\w+)")
STORED: Final = re.compile(r"tl\.(?:store|atomic_\w+)\(\s*(\w+)")

Run = Callable[..., Any]
Grid = tuple[int, ...]
UNARY: Final = frozenset(
    ("relu", "sigmoid", "tanh", "exp", "log", "neg", "abs", "sqrt", "rsqrt", "silu", "gelu", "sin", "cos", "clone")
)
BINARY: Final = frozenset(("add", "mul", "sub", "div", "maximum", "minimum"))
CONVERT: Final = "_to_copy"
OPERATOR: Final = "|".join(sorted({*UNARY, *BINARY, CONVERT}))
NAME: Final = re.compile(rf"triton_poi_fused_((?:(?:{OPERATOR})_)+)(\d+)")
MOST_OPERATORS: Final = 3
CACHE_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"


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
        for place, config in enumerate(configurations(kernel.configs, constants)):
            key = (code.hash, constants.shown(), place, device)
            if key not in _MADE:
                made = object.__new__(type(kernel))
                made.__dict__.update(kernel.__dict__)
                made.lock = threading.Lock()
                _MADE[key] = _alone(code, made, config, device)
            yield _MADE[key]
    elif grid is None:
        raise UnresolvedCallError(Reason.NO_INPUTS, f"the grid of {code.name} is not recorded")
    else:
        constant = {name: _typed(value) for name, value in {**constants.values, **constants.numbers}.items()}
        options = {name: value for name, value in constant.items() if name not in kernel.arg_names}

        def launch(*arguments: Any) -> Any:
            rest = iter(arguments)
            placed = [constant[name] if name in constant else next(rest) for name in kernel.arg_names]
            return kernel[grid](*placed, **options)

        names = tuple(name for name in kernel.arg_names if name not in constant)
        yield Launchable(launch, names, _changed(code))


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
    except (*TORCH_ERRORS, ImportError, NameError, SyntaxError, OSError) as error:
        raise UnresolvedCallError(Reason.REFUSED, f"loading {code.name}: {quoted(error)}") from error
    return module


@functools.cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="kerneldb-triton-")
    atexit.register(folder.cleanup)
    return folder.name


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


def _typed(value: Any) -> Any:
    """`tl.float32` as Triton's own object."""
    if isinstance(value, str) and value.startswith("tl."):
        import triton.language as tl

        return getattr(tl, value.removeprefix("tl."), value)
    return value


def _changed(code: Code) -> frozenset[str]:
    """Names of the pointers that the text both loads and stores."""
    return frozenset(LOADED.findall(code.text)) & frozenset(STORED.findall(code.text))


@dataclass(frozen=True, slots=True)
class Recompiled:
    """What came of one order of the operators: a function of the first `reads` tensors, and what it was compiled to."""

    function: Callable[..., Any]
    reads: int
    sources: tuple[Code, ...]


def operators(name: str) -> tuple[list[str], int]:
    """The operators in a kernel's name, and the number after them.

    Raises UnresolvedCallError (SOURCE) for names of another kind, or with an operator that is not elementwise.

    >>> operators("triton_poi_fused__to_copy_add_mul_1")
    (['_to_copy', 'add', 'mul'], 1)
    """
    match = NAME.fullmatch(name)
    if match is None:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and the operators of {name} are not all elementwise")
    found = re.findall(rf"({OPERATOR})_", match[1])
    if len(found) > MOST_OPERATORS:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and {name} has more than {MOST_OPERATORS} operators")
    return found, int(match[2])


def anew(name: str, kernel_hash: str | None, tensors: Sequence[Any]) -> tuple[Recompiled, Code | None]:
    """The operators in `name`, compiled; with the lost source where one has the recorded hash.

    Raises UnresolvedCallError (SOURCE) where no order of the operators takes these inputs, and errors of torch.
    """
    first: Recompiled | None = None
    for attempt in attempts(name, tensors):
        first = first or attempt
        for source in attempt.sources:
            if source.hash == kernel_hash:
                return attempt, source
    assert first is not None  # noqa: S101 (for the type checker: attempts gives one or raises)
    return first, None


def attempts(name: str, tensors: Sequence[Any]) -> Iterator[Recompiled]:
    """Each order of the operators in `name`, compiled over `tensors`, of which the last or the first is written.

    Raises UnresolvedCallError (SOURCE) as `operators` does, or where no order takes these inputs.
    """
    named, number = operators(name)
    needed = 1 + sum(one in BINARY for one in named)
    everything = range(len(tensors))
    written = next((at for given, at in ((everything[:-1], -1), (everything, 0)) if len(given) == needed), None)
    if written is None:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and {name} does not read as many inputs as its operators do")
    for order in dict.fromkeys(itertools.permutations(named)):
        yield _compiled(order, tensors[:needed], tensors[written].dtype, number)


def _compiled(order: Sequence[str], inputs: Sequence[Any], dtype: Any, number: int) -> Recompiled:
    import torch
    import torch._dynamo
    import torch._inductor.config as inductor

    torch._dynamo.reset()  # it gives up on a function that is compiled too often
    function = torch.compile(_chain(order, dtype), dynamic=False)
    with tempfile.TemporaryDirectory(prefix="kerneldb-inductor-") as folder, _cache(folder), torch.no_grad():
        with inductor.patch({"fx_graph_cache": False, "compile_threads": 1}):
            function(*inputs)
        texts = [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.py"))]
    return Recompiled(function, len(inputs), tuple(_kernels(texts, number)))


def _chain(order: Sequence[str], dtype: Any) -> Callable[..., Any]:
    """The operators one after the other; each binary one takes the next input."""
    import torch

    def chain(first: Any, *others: Any) -> Any:
        rest = iter(others)
        for one in order:
            if one == CONVERT:
                first = first.to(dtype)
            elif one in BINARY:
                first = getattr(torch, one)(first, next(rest))
            else:
                first = getattr(torch.ops.aten, one)(first)
        return first

    return chain


def _kernels(texts: Sequence[str], number: int) -> Iterator[Code]:
    """The kernels among the compiled files, under the number that the lost one had in its program."""
    for text in texts:
        match = re.search(r"^def (triton_poi_fused_\w+?)_\d+\(", text, re.MULTILINE)
        if match is not None and "async_compile" not in text:
            named = re.sub(rf"\b{match[1]}_\d+\b", f"{match[1]}_{number}", text)
            yield Code(code_hash(named), f"{match[1]}_{number}", named, INDUCTOR, "compiled anew")


@contextlib.contextmanager
def _cache(folder: str) -> Iterator[None]:
    """TorchInductor writes to an empty cache, so that all in it is of this kernel."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before
