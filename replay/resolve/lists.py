"""Tensor lists: the profiler records their dims but no dtypes, and nothing at all beyond 30 entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.plan.evidence import GRADIENT, OPTIMIZER_PREFIXES
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.dtypes import torch_name
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.resolve.tensors import Shape, contiguous
from kerneldb.replay.wire.plan import CallSpec, OpCall

ONE_DTYPE: Final = frozenset({"cat", "stack", "concat", "concatenate", "hstack", "vstack", "_foreach_norm"})
GUESSES: Final = ("float32", "float16", "bfloat16", "int64", "bool")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a list: dims and strides in elements, and its torch dtype name where the evidence tells it."""

    dims: Shape
    strides: Shape
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class TensorList:
    """What is known of a tensor list, and how."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


def variants(spec: CallSpec, argument: Argument, name: str) -> list[TensorList]:
    """What the list argument `name` may have been, best first: other guesses only where the evidence is thin.

    Raises UnresolvedCallError (LIST_DROPPED).
    """
    shapes = _recorded(argument)
    if shapes:
        return _with_dtypes(spec, TensorList(shapes))
    if name == "max_exp_avg_sqs" and _amsgrad_off(spec.call):
        return [TensorList(())]
    found = _dropped(spec)
    if name == "state_steps":
        steps = tuple(Entry((), (), "float32") for _ in found[0].entries)
        return [TensorList(steps, found[0].notes)]
    return [full for option in found for full in _with_dtypes(spec, option)]


def _recorded(argument: Argument) -> tuple[Entry, ...]:
    dims = argument.dims
    strides = argument.strides if len(argument.strides) == len(dims) else tuple(contiguous(one) for one in dims)
    return tuple(Entry(one, _strides(one, other)) for one, other in zip(dims, strides, strict=True))


def _amsgrad_off(call: OpCall) -> bool:
    """The last two flags of the fused Adam calls are amsgrad and maximize."""
    flags = [one.text for one in recorded.or_none(call) if one.text in {"True", "False"}]
    return flags[:1] == ["False"]


def _dropped(spec: CallSpec) -> list[TensorList]:
    """A list of more than 30 entries, from the calls that handled its entries one by one, or from the gradients."""
    op = recorded.short_name(spec.call.op)
    if op == "stack":
        options = [_firsts(call for call in spec.direct() if call.op == "aten::unsqueeze")]
    elif op in ONE_DTYPE:
        options = [_unsqueezed(child.call for child in spec.neighbours for _ in range(child.times))]
    else:
        options = [_handled(spec, op)]
    kept = [TensorList(entries, ("list-from-children",)) for entries in options if entries]
    if not kept and spec.call.op.startswith(OPTIMIZER_PREFIXES):
        kept = _gradients(spec)
    if not kept:
        raise UnresolvedCallError(Reason.LIST_DROPPED, spec.call.op)
    return kept


def _handled(spec: CallSpec, op: str) -> tuple[Entry, ...]:
    """`_foreach_add_` in its slow path calls `add_` once per tensor."""
    single = op.removeprefix("_foreach_")
    own = _firsts(call for call in spec.direct() if recorded.short_name(call.op).rstrip("_") == single.rstrip("_"))
    return own or _firsts(spec.direct())


def _gradients(spec: CallSpec) -> list[TensorList]:
    """All gradients of the step; else those with and without weight decay, the usual two parameter groups."""
    calls = (child.call for child in spec.neighbours for _ in range(child.times) if child.call.op == GRADIENT)
    full = _firsts(calls)
    matrices = tuple(entry for entry in full if len(entry.dims) > 1)
    vectors = tuple(entry for entry in full if len(entry.dims) <= 1)
    groups = [full, matrices, vectors] if matrices and vectors else [full]
    return [TensorList(group, ("list-from-gradients",)) for group in groups if group]


def _firsts(calls: Iterable[OpCall]) -> tuple[Entry, ...]:
    """The first argument of each call that has a tensor there."""
    return tuple(entry for call in calls for entry in _tensors(call)[:1])


def _tensors(call: OpCall) -> list[Entry]:
    tensors = (one for one in recorded.or_none(call) if one.is_tensor)
    return [Entry(one.dims, _strides(one.dims, one.strides), torch_name(one.kind)) for one in tensors]


def _strides(dims: Shape, strides: Shape) -> Shape:
    """Recorded strides; row-major ones where the trace has none."""
    return strides if len(strides) == len(dims) else contiguous(dims)


def _unsqueezed(calls: Iterable[OpCall]) -> tuple[Entry, ...]:
    """Results of `unsqueeze` calls: what `stack` hands to `cat`."""
    return tuple(entry for call in calls if call.op == "aten::unsqueeze" for entry in _unsqueeze(call))


def _unsqueeze(call: OpCall) -> Iterator[Entry]:
    arguments = recorded.or_none(call)
    for entry in _tensors(call)[:1]:
        axis = int(arguments[1].text or 0) % (len(entry.dims) + 1)
        step = entry.dims[axis] * entry.strides[axis] if axis < len(entry.dims) else 1
        dims = (*entry.dims[:axis], 1, *entry.dims[axis:])
        yield Entry(dims, (*entry.strides[:axis], step, *entry.strides[axis:]), entry.dtype)


def _with_dtypes(spec: CallSpec, option: TensorList) -> list[TensorList]:
    names = [entry.dtype or _dtype(entry, spec) for entry in option.entries]
    stacked = _unsqueezed(child.call for child in spec.neighbours) if _in_stack(spec) else ()
    sized = [entry.dtype for entry in stacked if entry.dtype]
    sized = sized or [name for name, entry in zip(names, option.entries, strict=True) if name and 0 not in entry.dims]
    common = Counter(sized).most_common(1)[0][0] if sized else None
    if common is None:
        guesses = dict.fromkeys((*_dtypes_around(spec), *GUESSES))
        return [_typed(option, [guess] * len(names), "list-dtype-guess") for guess in guesses]
    if recorded.short_name(spec.call.op) in ONE_DTYPE:
        others = [guess for guess in GUESSES if guess != common and not stacked and not spec.children]
        guessed = [_typed(option, [guess] * len(names), "list-dtype-guess") for guess in others]
        return [_typed(option, [common] * len(names)), *guessed]
    return [_typed(option, [name or common for name in names])]


def _in_stack(spec: CallSpec) -> bool:
    return spec.parent is not None and spec.parent.op.endswith("stack")


def _dtype(entry: Entry, spec: CallSpec) -> str | None:
    """A child that takes a tensor of the same dims, else a neighbour with these dims and strides, else these dims."""
    children = (other for call in spec.below() for other in _tensors(call)[:1] if other.dims == entry.dims)
    nearby = [other for child in spec.neighbours for other in _tensors(child.call) if other.dims == entry.dims]
    exact = [other for other in nearby if other.strides == entry.strides]
    found = [*children, *exact, *nearby][:1]
    return found[0].dtype if found else None


def _dtypes_around(spec: CallSpec) -> Iterator[str]:
    """Dtypes of any tensor of the calls below, then of the call around."""
    calls = (*spec.below(), *((spec.parent,) if spec.parent is not None else ()))
    return (entry.dtype for call in calls for entry in _tensors(call) if entry.dtype)


def _typed(option: TensorList, names: list[str], note: str | None = None) -> TensorList:
    entries = (Entry(entry.dims, entry.strides, name) for entry, name in zip(option.entries, names, strict=True))
    return TensorList(tuple(entries), (*option.notes, note) if note else option.notes)
