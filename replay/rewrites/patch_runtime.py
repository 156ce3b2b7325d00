# What a patch does: functions of a program are replaced by name. Written into every patch, with its CHANGES.
"""Replaces functions of a PyTorch program: `python PATCH script.py …`, or `import PATCH; PATCH.apply()`.

A replacement proves itself: on its first call with new shapes it runs the original too, and keeps it where the results
differ. What it does is written to standard error.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import importlib.util
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANGES: list[dict[str, Any]] = []
HOOK = "__changed_function__"
SMALL = 1e-2
VERY_LOW = 1e4
MATRIX, TENSOR, IMAGE = 2, 3, 4  # dims; attention takes so many tensors of the last
GRAPHS, SMALL_BYTES = 4, 1 << 24
USUAL_EPSILONS = (1e-6, 1e-5, 1e-8, 1e-12)

Function = Callable[..., Any]


def say(text: str) -> None:
    """A line on standard error, with escapes for what a terminal would act on: names are the program's."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    sys.stderr.write(f"patch: {shown}\n")


# Where the functions are.


def apply(script: str | None = None) -> None:
    """Apply all changes but those of the functions of `script`, which `run` changes as they are defined."""
    for number, change in enumerate(CHANGES):
        if change["kind"] == "setting":
            exec(f"import torch\n{change['text']}", {})  # noqa: S102 (a line of this file)
        elif change["kind"] == "optimizer":
            change_optimizers(change["values"])
        elif change["kind"] == "embedding_bags":
            change_embedding_bags()
        elif change["kind"] == "advice":
            where = change["frame"]
            say(f"to do by hand: {change['text']}" + (f" ({where['path']}:{where['line']})" if where else ""))
        elif not is_of(change["frame"], script):
            change_library(number)


def is_of(frame: dict[str, Any], script: str | None) -> bool:
    """Whether a function is one of the script."""
    return script is not None and Path(frame["path"]).name == Path(script).name


def change_library(number: int) -> None:
    """Replace a function of a module that can be imported."""
    frame = CHANGES[number]["frame"]
    module = imported(frame["path"])
    if module is None:
        say(f"{frame['path']} cannot be imported: {frame['function']} stays as it is")
        return
    for owner, name, function in functions_of(module):
        if matches(function, frame):
            made = changed(number)(getattr(owner, name))
            setattr(owner, name, made)
            if owner is module:
                spread(function, made)
            return
    say(f"{frame['path']}:{frame['line']} has no {frame['function']} any more: it stays as it is")


def imported(path: str) -> types.ModuleType | None:
    """The module of a file, by the longest of its names that can be imported."""
    parts = path.removesuffix(".py").strip("/").split("/")
    for first in range(len(parts)):
        name = ".".join(parts[first:])
        try:
            if all(part.isidentifier() for part in parts[first:]) and importlib.util.find_spec(name) is not None:
                return importlib.import_module(name)
        except (ImportError, ValueError):
            continue
    return None


def functions_of(module: types.ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """The functions of a module and of its classes, with where they are kept."""
    for name, value in list(vars(module).items()):
        if inspect.isfunction(value):
            yield module, name, value
        elif inspect.isclass(value) and value.__module__ == module.__name__:
            yield from ((value, inner, one) for inner, one in list(vars(value).items()) if inspect.isfunction(one))


def matches(function: Any, frame: dict[str, Any]) -> bool:
    """Whether a function, or one that it wraps, begins at the recorded line."""
    inner = inspect.unwrap(function)
    codes = [one.__code__ for one in (function, inner) if hasattr(one, "__code__")]
    return any(code.co_name == frame["function"] and code.co_firstlineno == frame["line"] for code in codes)


def spread(original: Any, made: Any) -> None:
    """Give other modules that imported the function by name the new one."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is original:
                setattr(module, name, made)


def run(command: list[str]) -> dict[str, Any]:
    """Run a script as `__main__` with its functions changed; returns its names."""
    script = command[0]
    tree = ast.parse(Path(script).read_text(encoding="utf-8"), script)
    wanted = [
        (number, one["frame"]) for number, one in enumerate(CHANGES)
        if one["kind"] != "advice" and one["frame"] and is_of(one["frame"], script)
    ]  # fmt: skip
    missed = dict(wanted)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            for number, frame in wanted:
                if (frame["line"], frame["function"]) == (first, node.name):
                    call = ast.parse(f"{HOOK}({number})", mode="eval").body
                    missed.pop(number, None)
                    node.decorator_list.insert(0, ast.fix_missing_locations(ast.copy_location(call, node)))
    for frame in missed.values():
        say(f"{script}:{frame['line']} has no {frame['function']} any more: it stays as it is")
    main = types.ModuleType("__main__")
    main.__file__ = script
    vars(builtins)[HOOK] = changed
    before, arguments = sys.modules["__main__"], sys.argv
    sys.path.insert(0, str(Path(script).resolve().parent))
    sys.modules["__main__"], sys.argv = main, list(command)
    try:
        apply(script)
        exec(compile(tree, script, "exec"), vars(main))  # noqa: S102 (the user's own script)
    finally:
        sys.modules["__main__"], sys.argv = before, arguments
        sys.path.pop(0)
    return vars(main)


# What they are replaced by.


def changed(number: int) -> Callable[[Function], Function]:
    """A decorator that makes a change."""
    change = CHANGES[number]
    makers = {
        "compile": compiled, "channels_last": channels_last, "rms_norm": norm, "layer_norm": norm,
        "attention": attention, "cuda_graph": graphed,
    }  # fmt: skip

    def decorate(original: Function) -> Function:
        say(f"{change['frame']['path']}:{change['frame']['line']} {original.__qualname__}: {change['kind']}")
        return makers[change["kind"]](original, change)

    return decorate


def compiled(original: Function, change: dict[str, Any]) -> Function:
    """Through torch.compile."""
    import torch

    torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, 256)
    made: Function = torch.compile(original, dynamic=False, **change["values"])
    if not any(one["kind"] in PROVING for one in CHANGES):
        return made
    known: list[bool] = []

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        """The first time as it is: the functions that it calls prove their replacements."""
        if not known:
            known.append(True)
            return original(*args, **kwargs)
        return made(*args, **kwargs)

    return call


def graphed(original: Function, change: dict[str, Any]) -> Function:
    """As CUDA graphs, without gradients: small tensors are copied in, of large ones the addresses must be the same."""
    import torch
    from torch.utils import _pytree as trees

    del change
    made: dict[Any, Any] = {}

    def captured(leaves: list[Any], form: Any) -> tuple[Any, list[Any], Any]:
        held = [one.clone() if small(one) else one for one in leaves]
        args, kwargs = trees.tree_unflatten(held, form)
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                original(*args, **kwargs)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            result = original(*args, **kwargs)
        return graph, held, result

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, form = trees.tree_flatten((args, kwargs))
        key = (form, *(kept(one) for one in leaves))
        if torch.is_grad_enabled() or not torch.cuda.is_available() or (key not in made and len(made) >= GRAPHS):
            return original(*args, **kwargs)
        if key not in made:
            try:
                made[key] = captured(leaves, form)
            except RuntimeError as error:
                say(f"{original.__qualname__} stays as it is: no CUDA graph of it ({str(error).splitlines()[0]})")
                made[key] = None
        if made[key] is None:
            return original(*args, **kwargs)
        graph, held, result = made[key]
        for own, given in zip(held, leaves, strict=True):
            if own is not given and isinstance(own, torch.Tensor):
                own.copy_(given)
        graph.replay()
        return trees.tree_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, result)

    return call


def small(value: Any) -> bool:
    """Whether a value is a tensor on the device that a graph may copy."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_cuda and value.nbytes <= SMALL_BYTES


def kept(value: Any) -> Any:
    """What must be the same for a graph to run again."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, int | float | str | bool | type(None)) else id(value)
    return value.dtype, tuple(value.shape), value.stride(), 0 if small(value) else value.data_ptr()


def channels_last(original: Function, change: dict[str, Any]) -> Function:
    """The module and its images in channels-last layout."""
    import torch

    del change

    def move(value: Any) -> Any:
        image = isinstance(value, torch.Tensor) and value.dim() == IMAGE and value.is_floating_point()
        return value.to(memory_format=torch.channels_last) if image else value

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not vars(self).get("_is_channels_last"):
            self.to(memory_format=torch.channels_last)
            object.__setattr__(self, "_is_channels_last", True)
        return original(self, *map(move, args), **{name: move(value) for name, value in kwargs.items()})

    return forward


def change_optimizers(values: dict[str, Any]) -> None:
    """Make arguments of all optimizers of torch that have them the given ones."""
    import torch

    for kind in vars(torch.optim).values():
        if inspect.isclass(kind) and set(values) <= set(inspect.signature(kind.__init__).parameters):
            setattr(kind, "__init__", functools.partialmethod(kind.__init__, **values))  # noqa: B010 (for type checkers)


def change_embedding_bags() -> None:
    """Let bags that all have as many indices be looked up and summed: what a compiler can fuse.

    It is the module's function, not the operator's: a compiler's cache knows that by its name only.
    """
    import torch

    original = torch.nn.EmbeddingBag.forward
    replaced = functools.partial(looked_up, original)
    torch.nn.EmbeddingBag.forward = proving(original, lambda *_: iter([replaced]))


def looked_up(original: Function, module: Any, input: Any, *rest: Any, **others: Any) -> Any:  # noqa: A002 (its name)
    """Rows of the weight, summed over each bag, where no more is asked for."""
    import torch.nn.functional as functions

    asked = module.scale_grad_by_freq or module.sparse or module.include_last_offset or rest or others
    more = module.max_norm is not None or module.padding_idx is not None
    if input.dim() != MATRIX or asked or more or module.mode not in ("sum", "mean"):
        return original(module, input, *rest, **others)
    return getattr(functions.embedding(input, module.weight), module.mode)(1)


PROVING = ("rms_norm", "layer_norm", "attention", "embedding_bags")


def proving(original: Function, candidates: Callable[..., Iterator[Function]]) -> Function:
    """The candidate that gives what the original gives, chosen at the first call of each kind of arguments."""
    import torch

    chosen: dict[Any, Function] = {}
    different: list[Function] = []

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # in a compiled function: what was the same wherever it was tried
            return (different[0] if len(different) == 1 else original)(*args, **kwargs)
        key = signature(args, kwargs)
        if key not in chosen:
            made = chosen[key] = nearest(original, list(candidates(args, kwargs)), args, kwargs)
            if all(getattr(one, "args", one) != getattr(made, "args", made) for one in different):
                different.append(made)
        return chosen[key](*args, **kwargs)

    return call


def signature(args: Any, kwargs: dict[str, Any]) -> Any:
    """What a choice depends on: the module, shapes and dtypes of tensors, plain values."""
    import torch

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.dtype, tuple(value.shape)
        return value if isinstance(value, int | float | str | bool | type(None)) else id(type(value))

    first = id(args[0]) if args and isinstance(args[0], torch.nn.Module) else None
    return first, *map(one, args), *((name, one(value)) for name, value in sorted(kwargs.items()))


def nearest(original: Function, made: list[Function], args: Any, kwargs: dict[str, Any]) -> Function:
    """The candidate with the least error, where it is as small as rounding; else the original."""
    import torch

    with torch.no_grad():
        sets = [(args, kwargs), *probes(args, kwargs)]
        wanted = [first_tensor(original(*one, **other)) for one, other in sets]
        errors = [max(map(functools.partial(error_of, one), wanted, sets)) for one in made]
    best = min(range(len(made)), key=lambda number: errors[number], default=None)
    if best is None or errors[best] > 1:
        say(f"{original.__qualname__} stays as it is: no replacement gives the same")
        return original
    return made[best]


def error_of(function: Function, wanted: Any, given: Any) -> float:
    """The largest error in units of what rounding may be: 1 and less is the same."""
    import torch

    try:
        result = first_tensor(function(*given[0], **given[1]))
    except (RuntimeError, TypeError, ValueError):
        return float("inf")
    if wanted is None or result is None or result.shape != wanted.shape or result.dtype != wanted.dtype:
        return float("inf")
    granted = 16 * torch.finfo(wanted.dtype).eps * max(float(wanted.abs().max()), 1e-30)
    off = float((result.double() - wanted.double()).abs().max())
    return off / float(granted)


def probes(args: Any, kwargs: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The same arguments with small numbers: an epsilon shows only there."""
    import torch

    def small(value: Any) -> Any:
        image = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() >= TENSOR
        low = image and float(value.min()) < -VERY_LOW
        return value * 1e-3 if image and not low else value

    yield tuple(map(small, args)), {name: small(value) for name, value in kwargs.items()}


def first_tensor(result: Any) -> Any:
    """The tensor of a result, the first of several."""
    return result[0] if isinstance(result, tuple) and result else result


def numbers(original: Function, args: Any, kwargs: dict[str, Any]) -> list[float]:
    """Plain numbers that a function may compute with: its arguments, those of its module, those in its code."""
    inner = inspect.unwrap(original)
    module = [value for one in args[:1] if hasattr(one, "__dict__") for value in vars(one).values()]
    consts = list(getattr(getattr(inner, "__code__", None), "co_consts", ()))
    defaults = [one.default for one in inspect.signature(inner).parameters.values()]
    listed = [*args, *kwargs.values(), *module, *defaults, *consts]
    return list(dict.fromkeys(float(one) for one in listed if isinstance(one, int | float) and one > 0))


def tensors(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """All tensors of the arguments, in order."""
    import torch

    return [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]


def norm(original: Function, change: dict[str, Any]) -> Function:
    """A norm over the last dim by the operator of torch; weight and bias are parameters, or arguments of one dim."""
    import torch
    import torch.nn.functional as functions

    def candidates(args: Any, kwargs: dict[str, Any]) -> Iterator[Function]:
        x, *others = tensors(args, kwargs)
        count = len([one for one in [*own(args), *others] if tuple(one.shape) == (x.shape[-1],)])
        known = [*numbers(original, args, kwargs), *USUAL_EPSILONS]
        epsilons = [one for one in dict.fromkeys(known) if one < SMALL]
        for eps, plus in itertools.product(epsilons, (0, 1)):
            yield functools.partial(normed, change["kind"], count, eps, plus)

    def own(args: Any) -> list[Any]:
        return list(args[0].parameters(recurse=False)) if isinstance(args[0], torch.nn.Module) else []

    def normed(kind: str, count: int, eps: float, plus: int, *args: Any, **kwargs: Any) -> Any:
        x, *others = tensors(args, kwargs)
        size = (x.shape[-1],)
        listed = [one for one in [*own(args), *others] if tuple(one.shape) == size][:count]
        weight, bias = [*listed, None, None][:2]
        weight = weight + plus if plus and weight is not None else weight
        if kind == "layer_norm":
            return functions.layer_norm(x, size, weight, bias, eps)
        if weight is not None and weight.dtype != x.dtype:
            return functions.rms_norm(x, size, None, eps) * weight
        return functions.rms_norm(x, size, weight, eps)

    return proving(original, candidates)


def attention(original: Function, change: dict[str, Any]) -> Function:
    """Attention of three tensors of four dims by the fused operator; the weights that it may return are None."""

    def candidates(args: Any, kwargs: dict[str, Any]) -> Iterator[Function]:
        listed = [one for one in tensors(args, kwargs) if one.dim() == IMAGE]
        if len(listed) < TENSOR:
            return
        known = numbers(original, args, kwargs)
        scales = dict.fromkeys([listed[0].shape[-1] ** -0.5, *known, *(1 / one for one in known), 1.0])
        kinds = [type(original(*args, **kwargs)) is tuple]
        masks = ("causal",) if change["values"].get("causal") else ("given", "none")
        for masked, scale, swapped, returns in itertools.product(masks, scales, (True, False), kinds):
            yield functools.partial(attended, scale, masked, swapped, returns)

    return proving(original, candidates)


def attended(scale: float, masked: str, swapped: bool, several: bool, *args: Any, **kwargs: Any) -> Any:
    """Attention of the first three tensors of four dims, with the next tensor as mask, or the causal one."""
    import torch.nn.functional as functions

    listed = tensors(args, kwargs)
    query, key, value = [one for one in listed if one.dim() == IMAGE][:3]
    rest = [one for one in listed if all(one is not some for some in (query, key, value))]
    mask = rest[0] if masked == "given" and rest else None
    if mask is not None and mask.is_floating_point():
        mask = mask[..., : key.shape[-2]].to(query.dtype)
    grouped: dict[str, Any] = {"enable_gqa": True} if key.shape[1] != query.shape[1] else {}
    grouped |= {"is_causal": True} if masked == "causal" else {}
    made = functions.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, **grouped)
    made = made.transpose(1, 2).contiguous() if swapped else made
    return (made, None) if several else made


if __name__ == "__main__":
    if len(sys.argv) > 1:  # as a module of its own: a compiler looks its functions up by the module's name
        spec = importlib.util.spec_from_file_location("changed_program", __file__)
        own = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # there is one for a file
        sys.modules["changed_program"] = own
        exec(compile(Path(__file__).read_text(encoding="utf-8"), __file__, "exec"), vars(own))  # noqa: S102 (this file)
        own.run(sys.argv[1:])
    else:
        say("give the script that is to run with the changes: python PATCH script.py …")
