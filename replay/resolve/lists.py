"""Tensor lists: the profiler records their dims but no dtypes, and nothing at all beyond 30 entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kerneldb.replay.plan.evidence import GRADIENT, OPTIMIZER_PREFIXES
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.dtypes import torch_name
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.recorded import Argument
from kerneldb.replay.resolve.tensors import TensorSpec, contiguous
from kerneldb.replay.wire.plan import CallSpec, OpCall

ONE_DTYPE: Final = frozenset({"cat", "stack", "concat", "concatenate", "hstack", "vstack", "_foreach_norm"})
GUESSES: Final = ("float32", "float16", "bfloat16", "int64", "bool")


@dataclass(frozen=True, slots=True)
class TensorList:
    """What is known of a tensor list, and how. The dtype of an entry is "" where the evidence does not tell it."""

    entries: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()


def variants(spec: CallSpec, argument: Argument, name: str) -> list[TensorList]:
    """What the list argument `name` may have been, best first: other guesses only where the evidence is thin.

    Raises UnresolvedCallError (LIST_DROPPED).
    """
    pairs = zip(argument.dims, argument.layout, strict=True)
    shapes = ((dims, strides if len(strides) == len(dims) else contiguous(dims)) for dims, strides in pairs)
    entries = tuple(TensorSpec(dims, strides, "") for dims, strides in shapes)
    if entries:
        return _with_dtypes(spec, TensorList(entries))
    if name == "max_exp_avg_sqs" and _amsgrad_off(spec.call):
        return [TensorList(())]
    found = _dropped(spec)
    if name == "state_steps":
        return [TensorList((TensorSpec((), (), "float32"),) * len(found[0].entries), found[0].notes)]
    return [full for option in found for full in _with_dtypes(spec, option)]


def _amsgrad_off(call: OpCall) -> bool:
    """The last two flags of the fused Adam calls are amsgrad and maximize."""
    flags = [one.text for one in recorded.or_none(call) if one.text in {"True", "False"}]
    return flags[:1] == ["False"]


def _dropped(spec: CallSpec) -> list[TensorList]:
    """A list of more than 30 entries, from the calls that handled its entries one by one, or from the gradients."""
    op = recorded.short_name(spec.call.op)
    if op == "stack":
        entries = _firsts(call for call in spec.direct() if call.op == "aten::unsqueeze")
    elif op in ONE_DTYPE:
        entries = _unsqueezed(child.call for child in spec.neighbours for _ in range(child.times))
    else:
        entries = _handled(spec, op)
    if entries:
        return [TensorList(entries, ("list-from-children",))]
    found = _gradients(spec) if spec.call.op.startswith(OPTIMIZER_PREFIXES) else []
    if not found:
        raise UnresolvedCallError(Reason.LIST_DROPPED, spec.call.op)
    return found


def _handled(spec: CallSpec, op: str) -> tuple[TensorSpec, ...]:
    """`_foreach_add_` in its slow path calls `add_` once per tensor."""
    single = op.removeprefix("_foreach_").rstrip("_")
    own = _firsts(call for call in spec.direct() if recorded.short_name(call.op).rstrip("_") == single)
    return own or _firsts(spec.direct())


def _gradients(spec: CallSpec) -> list[TensorList]:
    """All gradients of the step; else those with and without weight decay, the usual two parameter groups."""
    full = _firsts(child.call for child in spec.neighbours for _ in range(child.times) if child.call.op == GRADIENT)
    matrices = tuple(entry for entry in full if len(entry.dims) > 1)
    vectors = tuple(entry for entry in full if len(entry.dims) <= 1)
    groups = dict.fromkeys((full, matrices, vectors))
    return [TensorList(group, ("list-from-gradients",)) for group in groups if group]


def _firsts(calls: Iterable[OpCall]) -> tuple[TensorSpec, ...]:
    """The first argument of each call that has a tensor there."""
    return tuple(entry for call in calls for entry in _tensors(call)[:1])


def _tensors(call: OpCall | None) -> list[TensorSpec]:
    return [TensorSpec(one.dims, one.layout, torch_name(one.kind)) for one in recorded.or_none(call) if one.is_tensor]


def _unsqueezed(calls: Iterable[OpCall]) -> tuple[TensorSpec, ...]:
    """Results of `unsqueeze` calls: what `stack` hands to `cat`."""
    found: list[TensorSpec] = []
    for call in (one for one in calls if one.op == "aten::unsqueeze"):
        for entry in _tensors(call)[:1]:
            axis = int(recorded.or_none(call)[1].text or 0) % (len(entry.dims) + 1)
            step = entry.dims[axis] * entry.strides[axis] if axis < len(entry.dims) else 1
            dims = (*entry.dims[:axis], 1, *entry.dims[axis:])
            found.append(TensorSpec(dims, (*entry.strides[:axis], step, *entry.strides[axis:]), entry.dtype))
    return tuple(found)


def _with_dtypes(spec: CallSpec, option: TensorList) -> list[TensorList]:
    names = [entry.dtype or _dtype(entry, spec) for entry in option.entries]
    in_stack = spec.parent is not None and spec.parent.op.endswith("stack")
    stacked = _unsqueezed(child.call for child in spec.neighbours) if in_stack else ()
    sized = [entry.dtype for entry in stacked] or [
        name for name, entry in zip(names, option.entries, strict=True) if name and 0 not in entry.dims
    ]
    common = Counter(sized).most_common(1)[0][0] if sized else None
    if common is None:
        around = (entry.dtype for call in (*spec.below(), spec.parent) for entry in _tensors(call))
        guesses = dict.fromkeys((*around, *GUESSES))
        return [_typed(option, [guess] * len(names), "list-dtype-guess") for guess in guesses]
    if recorded.short_name(spec.call.op) in ONE_DTYPE:
        others = [guess for guess in GUESSES if guess != common and not stacked and not spec.children]
        guessed = [_typed(option, [guess] * len(names), "list-dtype-guess") for guess in others]
        return [_typed(option, [common] * len(names)), *guessed]
    return [_typed(option, [name or common for name in names])]


def _dtype(entry: TensorSpec, spec: CallSpec) -> str:
    """A child that takes a tensor of the same dims, else a neighbour with these dims and strides, else these dims."""
    children = (other for call in spec.below() for other in _tensors(call)[:1] if other.dims == entry.dims)
    nearby = [other for child in spec.neighbours for other in _tensors(child.call) if other.dims == entry.dims]
    exact = [other for other in nearby if other.strides == entry.strides]
    return next((other.dtype for other in (*children, *exact, *nearby)), "")


def _typed(option: TensorList, names: list[str], note: str | None = None) -> TensorList:
    entries = (replace(entry, dtype=name) for entry, name in zip(option.entries, names, strict=True))
    return TensorList(tuple(entries), (*option.notes, note) if note else option.notes)
