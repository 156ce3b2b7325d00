"""Tiny inputs for every `aten` overload of this torch, and one recorded call of each. Needs torch only.

    PYTHONPATH=. python3 benchmarks/gpu/overload_inputs.py capture INPUTS.pt [--device cpu] [--only aten::mm …]
    PYTHONPATH=. python3 benchmarks/gpu/overload_inputs.py record INPUTS.pt NAMES.txt TRACE.json PROGRESS.txt

`capture` runs the samples of PyTorch's own operator tests (`op_db` and its lists of `_foreach_` operators) and keeps
the arguments of the first call of each overload and kind of dtype that has any. `record` calls the overloads named in a
file once each under the profiler, each inside an annotation with its name: with captured arguments, with those of the
functional form of an `out=` or in-place one, or with drawn ones that fit the schema and run. It writes which overload
it is at, so that whoever started it knows which one killed it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from kerneldb.replay.resolve.arguments import OPERATOR_TEXTS, TEXT_VALUES
from kerneldb.replay.worker.profiling import MARKER_PREFIX

MARK = f"{MARKER_PREFIX}overload "
DRAWS = 240
LARGEST = 1 << 16
SAMPLES = 6
SHAPES = ((3, 3), (2, 3, 4, 4), (2, 3, 4), (4,), (), (1, 2, 4, 4, 4), (2, 2, 3, 3))
DTYPES = (torch.float32, torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64, torch.uint8)
UNFIT = {
    "aten::from_file": "reads a file",
    "aten::manual_seed": "sets the state of the process",
    "aten::__getstate__": "belongs to pickling",
}
KINDS = {torch.complex64: "complex", torch.int64: "integer", torch.bool: "bool", torch.bfloat16: "half"}

PLAIN = (int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)

Inputs = dict[str, tuple[tuple[Any, ...], dict[str, Any]]]


@functools.cache
def overloads() -> list[str]:
    """The names of all overloads of aten that the dispatcher knows, `aten::add.Tensor`; `aten::mm` has no label."""
    known = torch._C._dispatch_get_all_op_names()
    return sorted({name for name in known if name.startswith("aten::") and name.split(".")[0] not in UNFIT})


def function_of(name: str) -> Any:
    """The callable of an overload; None where torch makes none."""
    short, _, label = name.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, short, None)
    return getattr(packet, label or "default", None)


def copied(value: Any) -> Any:
    """Arguments whose tensors are copies: in-place calls change theirs. Strides stay."""

    def copy(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        with torch.no_grad():
            return one.detach().clone()

    return tree_map(copy, value)


def small(value: Any) -> bool:
    """Whether these are few values of kinds that can be kept in a file."""
    leaves = tree_leaves(value)
    plain = all(isinstance(one, PLAIN) or type(one) is torch.Tensor for one in leaves)
    return plain and all(one.numel() <= LARGEST for one in leaves if isinstance(one, torch.Tensor))


def kind_of(value: Any) -> str:
    """What the first tensor holds, where that is not plain floats: a word."""
    first = next((one for one in tree_leaves(value) if isinstance(one, torch.Tensor)), None)
    if first is None or first.dtype not in KINDS:
        return ""
    return KINDS[first.dtype]


class Capture(TorchDispatchMode):
    """Keeps the arguments of the first call of each overload and kind of dtype."""

    def __init__(self, found: Inputs) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        del kinds
        kwargs = kwargs or {}
        name, given = func.name(), (args, kwargs)
        if name.startswith("aten::") and small(given):
            word = kind_of(given)
            key = f"{name} {word}" if word else name
            if key not in self.found or not filled(self.found[key]):
                with contextlib.suppress(RuntimeError, NotImplementedError):
                    self.found[key] = copied(given)
        return func(*args, **kwargs)


def filled(given: Any) -> bool:
    return all(one.numel() for one in tree_leaves(given) if isinstance(one, torch.Tensor))


def operator_infos() -> list[Any]:
    """The operators that PyTorch tests, with their samples; none where its test modules are missing."""
    if "expecttest" not in sys.modules:
        with contextlib.suppress(ImportError):
            import expecttest  # noqa: F401
    if "expecttest" not in sys.modules:  # a base class of test cases that none of this needs
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    try:
        from torch.testing._internal import common_methods_invocations as tests
    except ImportError:
        return []
    lists = ("op_db", *(f"foreach_{one}_op_db" for one in ("unary", "binary", "pointwise", "reduce", "other")))
    return [one for name in lists for one in getattr(tests, name, ())]


def samples(info: Any, device: str, dtype: torch.dtype) -> Iterator[Any]:
    given: Any = iter(())
    grad = dtype.is_floating_point and info.supports_autograd
    with contextlib.suppress(Exception):
        if info.name.startswith("_foreach_"):
            made = info.sample_inputs(device, dtype, noncontiguous=False, num_input_tensors=[3])
        else:
            made = info.sample_inputs(device, dtype, requires_grad=grad)
        given = iter(made)
    for _ in range(SAMPLES):
        with contextlib.suppress(Exception):
            yield next(given)


def capture(device: str, only: Iterable[str] = ()) -> Inputs:
    """Arguments by overload (and kind of dtype) from the samples of PyTorch's tests."""
    found: Inputs = {}
    wanted = {name.removeprefix("aten::").split(".")[0].rstrip("_") for name in only}
    for info in operator_infos():
        if wanted and (info.aten_name or info.name).split(".")[-1] not in wanted and info.name not in wanted:
            continue
        for dtype in (torch.float32, *KINDS):
            if dtype in info.supported_dtypes(device):
                run_samples(info, device, dtype, found)
    return found


def capture_on_gpu(device: str) -> Inputs:
    """Arguments of what only runs on GPUs: attention, convolutions, norms and recurrent cells of cuDNN and others."""
    found: Inputs = {}
    from torch.nn import attention, functional

    heads = [torch.randn(2, 4, 32, 64, device=device, dtype=torch.float16, requires_grad=True) for _ in range(3)]
    image = torch.randn(2, 8, 16, 16, device=device, dtype=torch.float16, requires_grad=True)
    norm = torch.nn.BatchNorm2d(8).to(device)
    rnn = torch.nn.LSTM(8, 16).to(device)
    parameter = torch.nn.Parameter(torch.randn(8, 8, device=device))
    parameter.grad = torch.randn_like(parameter)

    def attend(backend: Any, *, causal: bool) -> Any:
        with attention.sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(*heads, is_causal=causal)

    backends = attention.SDPBackend
    attending = (backends.FLASH_ATTENTION, backends.EFFICIENT_ATTENTION, backends.CUDNN_ATTENTION, backends.MATH)
    programs: list[Callable[[], Any]] = [
        *(functools.partial(attend, one, causal=causal) for one in attending for causal in (True, False)),
        lambda: functional.conv2d(image, torch.randn(8, 8, 3, 3, device=device, dtype=torch.float16)),
        lambda: norm(image.float()),
        lambda: rnn(torch.randn(5, 2, 8, device=device))[0],
        lambda: functional.group_norm(image, 2),
        lambda: functional.embedding_bag(
            torch.arange(12, device=device), torch.randn(20, 8, device=device), torch.tensor([0, 4, 8], device=device)
        ),
        *(torch.optim.AdamW([parameter], fused=fused, foreach=not fused).step for fused in (True, False)),
        torch.optim.SGD([parameter], lr=0.1, fused=True, momentum=0.9).step,
    ]
    for program in programs:
        with contextlib.suppress(Exception), Capture(found):
            result = program()
            if isinstance(result, torch.Tensor):
                result.sum().backward()
    return found


def run_samples(info: Any, device: str, dtype: torch.dtype, found: Inputs) -> None:
    for sample in samples(info, device, dtype):
        given = (sample.input, *sample.args), sample.kwargs
        with contextlib.suppress(Exception), Capture(found):
            result = info.op(*given[0], **given[1])
            first = next((one for one in tree_leaves(result) if isinstance(one, torch.Tensor)), None)
            if dtype is torch.float32 and first is not None and first.requires_grad:
                first.sum().backward()
        direct(info, given, found)


def direct(info: Any, given: Any, found: Inputs) -> None:
    """Composite overloads never reach a dispatch mode: the arguments of a sample are those of some of them."""
    known = frozenset(overloads())
    packet = getattr(torch.ops.aten, (info.aten_name or info.name).split(".")[-1], None)
    for label in packet.overloads() if packet is not None else ():
        function = getattr(packet, label)
        if function.name() not in known:
            continue
        word = kind_of(given)
        name = f"{function.name()} {word}" if word else function.name()
        if name not in found and small(given) and runs(function, given):
            found[name] = copied(given)


def runs(function: Any, given: Any) -> bool:
    """Whether a call with copies of these arguments succeeds."""
    try:
        args, kwargs = copied(given)
        with torch.no_grad():
            function(*args, **kwargs)
    except Exception:  # noqa: BLE001 (whatever an operator raises for arguments it does not take)
        return False
    return True


class Drawer:
    """Draws arguments that fit a schema until a call runs."""

    def __init__(self, name: str, device: str) -> None:
        self.texts = OPERATOR_TEXTS.get(name.removeprefix("aten::").partition(".")[0], TEXT_VALUES)
        self.random = random.Random(name)
        self.device = device
        self.shape: tuple[int, ...] = ()
        self.dtype = torch.float32

    def arguments(self, function: Any, turn: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self.shape, self.dtype = SHAPES[turn % len(SHAPES)], DTYPES[(turn // len(SHAPES)) % len(DTYPES)]
        plain, named = [], {}
        for one in function._schema.arguments:
            value = self.value(one, str(one.real_type))
            if one.kwarg_only:
                named[one.name] = value
            else:
                plain.append(value)
        return tuple(plain), named

    def value(self, one: Any, kind: str) -> Any:
        if kind.startswith("Optional["):
            if self.random.random() < 0.5:
                return one.default_value if one.has_default_value() else None
            kind = kind.removeprefix("Optional[").removesuffix("]")
        if one.has_default_value() and self.random.random() < 0.7:
            return one.default_value
        if kind.startswith("List["):
            inner = kind.removeprefix("List[").removesuffix("]")
            count = one.N or self.random.choice((1, 2, 3, max(len(self.shape), 1)))
            if one.name in {"size", "sizes", "shape"} and self.random.random() < 0.7:
                return list(self.shape)
            return [self.value(types.SimpleNamespace(name=one.name, has_default_value=lambda: False, N=None), inner)
                    for _ in range(count)]  # fmt: skip
        return self.single(one.name, kind)

    def single(self, name: str, kind: str) -> Any:
        fixed = {"ScalarType": torch.float32, "Layout": torch.strided, "MemoryFormat": torch.contiguous_format,
                 "Device": torch.device(self.device)}  # fmt: skip
        some = {"number": (1, 2, 0.5), "Scalar": (1, 2, 0.5), "float": (0.5, 1.0, 0.1), "bool": (True, False)}
        if kind == "Tensor":
            return self.tensor(name)
        if kind in {"int", "SymInt"}:
            return self.random.choice((0, 1, -1) if "dim" in name else (0, 0, 1, 1, 2, 3, -1))
        if kind == "str":
            return self.random.choice([one for one in self.texts.get(name, ("sum",)) if one is not None])
        if kind == "Generator":
            return torch.Generator(self.device).manual_seed(0)
        return self.random.choice(some[kind]) if kind in some else fixed.get(kind)

    def tensor(self, name: str) -> Any:
        shape, dtype = self.shape, self.dtype
        if self.random.random() < 0.3:
            shape = self.random.choice(SHAPES)
        if any(word in name for word in ("ind", "idx", "offset", "target", "length")):
            return torch.zeros(shape, dtype=torch.int64, device=self.device)
        if "mask" in name:
            return torch.ones(shape, dtype=torch.bool, device=self.device)
        if name in {"weight", "bias", "running_mean", "running_var", "mean", "rstd", "scale", "zero_point"}:
            shape = self.random.choice((shape, (3,), (4,), (4, 3), (2, 3, 2, 2)))
        made = torch.rand(shape, device=self.device) * 2 + 0.5
        return made.to(dtype)


def forms(name: str, inputs: Inputs) -> Iterator[tuple[str, Any]]:
    """Arguments of other forms of an overload: of the functional one for in-place and out= ones."""
    short, _, _ = name.partition(".")
    plain = short.removesuffix("_") if not short.endswith("__") else short
    others = (
        plain,
        f"{plain}_",
        plain.removesuffix("_copy"),
        plain.replace("_copy", ""),
        plain.removesuffix("_forward"),
    )
    for other in dict.fromkeys(others):
        for key in inputs:
            if key.partition(" ")[0].partition(".")[0] == other:
                yield key, inputs[key]


def with_out(function: Any, given: Any, source: str) -> Any:
    """The arguments with tensors to write into, for an overload that has out= arguments; as they are for others."""
    outs = [one.name for one in function._schema.arguments if one.is_out]
    if not outs or any(name in given[1] for name in outs):
        return given
    plain = function_of(source.partition(" ")[0])
    try:
        args, kwargs = copied(given)
        made = plain(*args, **kwargs)
    except Exception:  # noqa: BLE001 (the form does not run alone)
        return given
    results = list(made) if isinstance(made, tuple) else [made]
    if len(outs) == 1 and isinstance(made, list):
        results = [made]
    empty = [tree_map(torch.empty_like, one) if one is not None else None for one in results]
    return given[0], {**given[1], **dict(zip(outs, empty, strict=False))}


def with_numbers(function: Any, given: Any) -> Any:
    """The arguments with numbers where the overload takes numbers.

    Tensors do as well, but PyTorch reads them from the device before it calls the operator: copies
    beside the call, which it is not to be blamed for.
    """
    numbers = {one.name for one in function._schema.arguments if "Tensor" not in str(one.real_type)}
    places = [one.name in numbers for one in function._schema.arguments]

    def plain(value: Any) -> Any:
        return tree_map(lambda one: one.tolist() if isinstance(one, torch.Tensor) else one, value)

    args = tuple(plain(value) if number else value for value, number in zip(given[0], places, strict=False))
    kwargs = {name: plain(value) if name in numbers else value for name, value in given[1].items()}
    changed = len(tensors(given)) > len(tensors((args, kwargs)))
    return (args, kwargs) if changed and runs(function, (args, kwargs)) else given


def tensors(given: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]


def find(name: str, inputs: Inputs, device: str) -> Any:
    """Arguments with which the overload runs; None where none was found."""
    function = function_of(name.partition(" ")[0])
    if function is None:
        return None
    if name in inputs and runs(function, inputs[name]):
        return inputs[name]
    for source, given in forms(name.partition(" ")[0], inputs):
        for tried in (with_out(function, given, source), given):
            if runs(function, tried):
                return tried
    drawer = Drawer(name, device)
    for turn in range(DRAWS if device == "cpu" else 0):  # an index out of range would break the context of a GPU
        with contextlib.suppress(Exception):
            tried = drawer.arguments(function, turn)
            if runs(function, tried):
                return tried
    return None


def record(inputs: Inputs, names: list[str], path: Path, progress: Path, device: str) -> None:
    """Find arguments for each overload, then call each once in one profiler session.

    The arguments are kept beside the trace (`.pt`), for the same calls on another device.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    with progress.open("a", encoding="utf-8") as told:
        found = {}
        for name in names:
            told.write(f"find\t{name}\n")
            told.flush()
            given = find(name, inputs, device)
            if device != "cpu":
                torch.cuda.synchronize()  # raises what broke the context: this one is to blame
            if given is None:
                told.write(f"none\t{name}\n")
            else:
                found[name] = with_numbers(function_of(name.partition(" ")[0]), given)
        save({name: given for name, given in found.items() if small(given)}, path.with_suffix(".pt"))
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device != "cpu" else [])]
        with profile(activities=activities, record_shapes=True) as profiler, torch.no_grad():
            for name, given in found.items():
                told.write(f"call\t{name}\n")
                told.flush()
                args, kwargs = copied(given)
                function = function_of(name.partition(" ")[0])
                with record_function(MARK + name), contextlib.suppress(Exception):
                    kept = function(*args, **kwargs)
                    del kept
            if device != "cpu":
                torch.cuda.synchronize()
        profiler.export_chrome_trace(str(path))
        told.write("end\t\n")


FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def save(inputs: Inputs, path: Path) -> None:
    """Write inputs; memory formats, which cannot be pickled, by name."""
    torch.save(tree_map(lambda one: str(one) if isinstance(one, torch.memory_format) else one, inputs), path)


def load(path: Path, device: str) -> Inputs:
    """Inputs of a file on a device; what names a device names that one."""
    formats = {f"torch.{name}": getattr(torch, name) for name in FORMATS}

    def move(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return one.to(device)
        if isinstance(one, str):
            return formats.get(one, one)
        return torch.device(device) if isinstance(one, torch.device) else one

    read: Inputs = torch.load(path, weights_only=False)
    return tree_map(move, read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("capture", "record"))
    parser.add_argument("inputs", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if chosen.step == "capture":
        save(capture(chosen.device, chosen.only), chosen.inputs)
        return
    names, path, progress = chosen.files
    inputs = load(chosen.inputs, chosen.device)
    if chosen.device != "cpu":
        inputs |= capture_on_gpu(chosen.device)
    record(inputs, names.read_text(encoding="utf-8").splitlines(), path, progress, chosen.device)


if __name__ == "__main__":
    main()
