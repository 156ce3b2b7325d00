"""Lists of tensors and of indices.

Tensor lists: the profiler records their dims but no dtypes, and nothing at all beyond 30 entries.

A `_foreach_` call that runs as one kernel has one dtype (`can_use_fast_route` of aten/src/ATen/native/ForeachUtils.h),
which the kernel's name tells: `multi_tensor_apply_kernel<…, UnaryOpFunctor<long, 2, 1, 1>, …>`. One that makes results
makes each with `empty_strided` before, of which the profiler has dims, strides and dtype.

Index lists (`Tensor?[]`) of index and index_put_: never recorded, but written in the calls that indexing makes.

What make_info of aten/src/ATen/native/TensorAdvancedIndexing.cpp calls: `nonzero` for each mask, `permute` where the
indexed dims are not adjacent, `as_strided` on self with stride 0 over the indexed dims, and one `reshape` per index
tensor, from its broadcast dims to [1, …, dims, …, 1].

On a GPU, sums into places (`accumulate`) sort instead: makeLinearIndex of aten/src/ATen/native/cuda/Indexing.cu calls
`remainder` of each broadcast index tensor by the size of its dim, and `mul` by the stride.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.evidence import GRADIENT, OPTIMIZER_PREFIXES
from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.recorded import INTEGER, Argument
from kerneldb.replay.resolve.tensors import SCALAR_TYPES, TORCH_NAMES, Fill, Shape, TensorSpec, contiguous, torch_name
from kerneldb.replay.wire.plan import CallSpec, OpCall

ONE_DTYPE: Final = frozenset({
    "cat", "stack", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack", "row_stack", "_foreach_norm",
})  # fmt: skip
FLOATS: Final = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128"})
FOREACH: Final = "_foreach_"
ONE_KERNEL: Final = "multi_tensor_apply_kernel<"
PART: Final = r"((?:[^,<>]|<[^<>]*>)+)"
FUNCTOR: Final = re.compile(rf"(Copy)?Functor<{PART}, {PART}")
"""With the dtype of the first list; a copy between two dtypes has that of its source next."""
GUESSES: Final = ("float32", "float16", "bfloat16", "int64", "bool")
OFFSETS: Final = "offsets"
STEPS: Final = "state_steps"
DTYPE: Final = 2
"""The place of the dtype among the arguments of `empty_strided`."""
INDEXING: Final = frozenset({
    "aten::_index_put_impl_", "aten::_index_put_impl", "aten::index_put_", "aten::index_put", "aten::index",
    "aten::_unsafe_index", "aten::_unsafe_index_put", "aten::_unsafe_masked_index_put_accumulate",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorList:
    """What is known of a tensor list, and how. The dtype of an entry is "" where the evidence does not tell it."""

    entries: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()


def variants(spec: CallSpec, argument: Argument, name: str, kernels: Sequence[str] = ()) -> list[TensorList]:
    """What the list argument `name` may have been, best first: other guesses only where the evidence is thin.

    `kernels` are the names of what the call launched. Raises UnresolvedCallError (LIST_DROPPED).
    """
    pairs = zip(argument.dims, argument.layout, strict=True)
    shapes = ((dims, strides if len(strides) == len(dims) else contiguous(dims)) for dims, strides in pairs)
    entries = tuple(TensorSpec(dims, strides, "") for dims, strides in shapes)
    fixed = _told(spec, name, kernels)
    if entries:
        plain = TensorList(entries)
        found = [_typed(plain, [fixed] * len(entries))] if fixed else _with_dtypes(spec, plain)
        # results may be of another dtype than the inputs, whose dims they have
        return found if name != "out" else [*found, *_guessed(found[0], GUESSES)]
    if name == "max_exp_avg_sqs" and _amsgrad_off(spec.call):
        return [TensorList(())]
    options = _dropped(spec)
    if name == STEPS:
        return [TensorList((TensorSpec((), (), "float32"),) * len(options[0].entries), options[0].notes)]
    if fixed:
        return [_typed(option, [fixed] * len(option.entries)) for option in options]
    return [full for option in options for full in _with_dtypes(spec, option)]


def _told(spec: CallSpec, name: str, kernels: Iterable[str]) -> str:
    """The dtype of all tensors of a list, or "": of those of one dtype always, and of a call that ran as one kernel.

    Steps are no floats of 32 bits only on a host, where a call below reads each.
    """
    if name == OFFSETS:
        return "int64"
    if name == STEPS and not any(_tensors(call) for call in spec.below()):
        return "float32"
    if FOREACH not in recorded.short_name(spec.call.op):
        return ""
    found = (FUNCTOR.search(kernel) for kernel in kernels if ONE_KERNEL in kernel)
    for read in filter(None, found):
        kind = read[3] if read[1] and name == "src" else read[2]
        return TORCH_NAMES.get(kind, "")
    made = {entry.dtype for entry in _made(spec)}
    return made.pop() if len(made) == 1 else ""


def _made(spec: CallSpec) -> tuple[TensorSpec, ...]:
    """The results of a call that makes them, and calls nothing else: they have the dims and the dtype of its inputs."""
    if any(call.op != "aten::empty_strided" for call in spec.direct()):
        return ()
    made = [recorded.or_none(call) for call in spec.direct()]
    return tuple(
        TensorSpec(recorded.integers(one[0].text), recorded.integers(one[1].text), SCALAR_TYPES.get(int(code), ""))
        for one in made
        if len(one) > DTYPE and INTEGER.fullmatch(code := one[DTYPE].text)
    )


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
        single = op.removeprefix("_foreach_").rstrip("_")
        own = _firsts(call for call in spec.direct() if recorded.short_name(call.op).rstrip("_") == single)
        entries = own or _firsts(spec.direct())
    if entries:
        return [TensorList(entries, ("list-from-children",))]
    found = _gradients(spec) if spec.call.op.startswith(OPTIMIZER_PREFIXES) else []
    if op.startswith(FOREACH) and (made := _made(spec)):
        # results that are alike are counted together: gradients have their order
        ordered = [one for one in found if Counter(_shapes(one.entries)) == Counter(_shapes(made))]
        return ordered[:1] or [TensorList(made, ("list-from-children",))]
    if not found:
        raise UnresolvedCallError(Reason.LIST_DROPPED, spec.call.op)
    return found


def _shapes(entries: Iterable[TensorSpec]) -> list[Shape]:
    return [entry.dims for entry in entries]


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
        return _guessed(option, guesses)
    if recorded.short_name(spec.call.op) in ONE_DTYPE:
        one = _typed(option, [common] * len(names))
        told = stacked or any(_tensors(call) for call in spec.below())
        return [one] if told else [one, *_guessed(one, GUESSES)]
    found = [_typed(option, [name or common for name in names])]
    if spec.children or option.notes:
        return found
    # what lies near may belong to something else: there is no call below that shows it
    return [*found, *_guessed(found[0], GUESSES)]


def _guessed(option: TensorList, guesses: Iterable[str]) -> list[TensorList]:
    """The same of other dtypes, one for all entries."""
    others = (guess for guess in guesses if any(entry.dtype != guess for entry in option.entries))
    return [_typed(option, [guess] * len(option.entries), "list-dtype-guess") for guess in others]


def _dtype(entry: TensorSpec, spec: CallSpec) -> str:
    """A child that takes a tensor of the same dims, else a neighbour with these dims and strides, else these dims.

    Optimizers' lists hold floats.
    """
    floats = spec.call.op.startswith(OPTIMIZER_PREFIXES)
    children = (other for call in spec.below() for other in _tensors(call)[:1] if other.dims == entry.dims)
    near = (other for child in spec.neighbours for other in _tensors(child.call) if other.dims == entry.dims)
    nearby = [other for other in near if not floats or other.dtype in FLOATS]
    exact = [other for other in nearby if other.strides == entry.strides]
    return next((other.dtype for other in (*children, *exact, *nearby)), "")


def _typed(option: TensorList, names: list[str], note: str | None = None) -> TensorList:
    entries = (replace(entry, dtype=name) for entry, name in zip(option.entries, names, strict=True))
    return TensorList(tuple(entries), (*option.notes, note) if note else option.notes)


@dataclass(frozen=True, slots=True)
class Traces:
    """What the calls below an indexing call tell."""

    indices: tuple[tuple[Argument, Shape], ...]  # index tensor, and the dims it is reshaped to
    masks: tuple[Argument, ...]
    order: Shape | None  # permute of self: indexed dims first
    restrided: tuple[Shape, Shape] | None  # dims and strides of self with the indexed dims replaced
    expanded: tuple[tuple[Argument, Shape], ...]  # index tensors that were broadcast, and to which dims
    sizes: Shape = ()  # sizes of the indexed dims, and
    steps: Shape = ()  # their strides in a contiguous self, where a linear index was made


def indices(spec: CallSpec, self_dims: Shape) -> list[TensorSpec | None]:
    """The index list for a self of `self_dims`, None where a dim is not indexed.

    Raises UnresolvedCallError (INDICES).
    """
    depth = 1
    while any(child.depth == depth and child.call.op in INDEXING for child in spec.children):
        depth += 1
    calls = [child.call for child in spec.children if child.depth == depth for _ in range(child.times)]
    for call in calls:
        arguments = recorded.or_none(call)
        if call.op == "aten::masked_fill_" and len(arguments) > 1 and arguments[1].is_tensor:
            return [_mask(arguments[1], prod(arguments[1].dims) // 2)]
    on_tensors = [(call.op, found) for call in calls if (found := recorded.or_none(call)) and found[0].is_tensor]

    def reshaped(op: str) -> tuple[tuple[Argument, Shape], ...]:
        held = (found for name, found in on_tensors if name == op and torch_name(found[0].kind) in {"int64", "int32"})
        return tuple((found[0], recorded.integers(found[1].text)) for found in held)

    order = (found[1] for op, found in on_tensors if op == "aten::permute" and found[0].dims == self_dims)
    views = (found for op, found in on_tensors if op == "aten::as_strided" and found[1].text)
    masks = (found[0] for op, found in on_tensors if op == "aten::nonzero")
    traces = Traces(
        indices=reshaped("aten::reshape"),
        masks=tuple(mask for mask in masks if torch_name(mask.kind) in {"bool", "uint8"}),
        order=next((recorded.integers(one.text) for one in order), None),
        restrided=next(((recorded.integers(one[1].text), recorded.integers(one[2].text)) for one in views), None),
        expanded=reshaped("aten::expand"),
    )
    traces = _linear(traces, on_tensors)
    if not traces.indices:
        raise UnresolvedCallError(Reason.INDICES, spec.call.op)
    positions = _positions(traces, self_dims)
    return _masked(traces, self_dims, positions[0]) if traces.masks else _plain(traces, self_dims, positions)


def _linear(traces: Traces, calls: list[tuple[str, tuple[Argument, ...]]]) -> Traces:
    """The same with the index tensors of which a linear index was made, if one was: what is reshaped then is that."""
    wrapped: list[tuple[Argument, int]] = []
    steps: list[int] = []
    for op, found in calls:
        plain = torch_name(found[0].kind) in {"int64", "int32"} and len(found) > 1 and INTEGER.fullmatch(found[1].text)
        if plain and op == "aten::remainder":
            wrapped.append((found[0], int(found[1].text)))
        elif plain and op == "aten::mul" and len(steps) < len(wrapped):
            steps.append(int(found[1].text))
    if not wrapped or len(steps) < len(wrapped):
        return traces
    indices = tuple((one, one.dims) for one, _ in wrapped)
    return replace(traces, indices=indices, sizes=tuple(size for _, size in wrapped), steps=tuple(steps))


def _positions(traces: Traces, self_dims: Shape) -> Shape:
    """Which dims of self are indexed."""
    count = len(traces.indices)
    if traces.order is not None:
        return traces.order[:count]
    if traces.steps:
        dims = list(zip(self_dims, contiguous(self_dims), strict=True))
        found: list[int] = []
        for wanted in zip(traces.sizes, traces.steps, strict=True):
            start = found[-1] + 1 if found else 0
            found.append(next((at for at in range(start, len(dims)) if dims[at] == wanted), start))
        return tuple(found)
    argument, full = traces.indices[0]
    starts = range(len(full) - len(argument.dims) + 1)
    start = next((one for one in starts if _fits(traces, self_dims, one)), 0)
    return tuple(range(start, start + count))


def _fits(traces: Traces, self_dims: Shape, start: int) -> bool:
    """Whether self, restrided, has the index dims (with stride 0) in place of its dims from `start` on."""
    argument, full = traces.indices[0]
    dims, end = argument.dims, start + len(argument.dims)
    if full[:start] != (1,) * start or full[start:end] != dims or traces.restrided is None:
        return False
    sizes, strides = traces.restrided
    around = sizes[:start] == self_dims[:start] and sizes[end:] == self_dims[start + len(traces.indices) :]
    repeated = all(stride == 0 or size == 1 for size, stride in zip(dims, strides[start:end], strict=False))
    return around and sizes[start:end] == dims and repeated


def _plain(traces: Traces, self_dims: Shape, positions: Shape) -> list[TensorSpec | None]:
    found: list[TensorSpec | None] = [None] * (max(positions) + 1)
    unused = list(traces.expanded)
    for position, (argument, _) in zip(positions, traces.indices, strict=False):
        found[position] = _index(_before_broadcast(argument, unused), self_dims[position])
    return found


def _before_broadcast(argument: Argument, unused: list[tuple[Argument, Shape]]) -> Argument:
    """The index tensor as it was passed; takes the `expand` it came from out of `unused`."""
    for place, (narrow, dims) in enumerate(unused):
        if dims == argument.dims and _broadcast_strides(narrow, dims) == argument.strides:
            del unused[place]
            return narrow
    return argument


def _broadcast_strides(narrow: Argument, dims: Shape) -> Shape:
    lead = len(dims) - len(narrow.dims)
    sizes, strides = (1,) * lead + narrow.dims, (0,) * lead + narrow.strides
    rows = zip(dims, sizes, strides, strict=True)
    return tuple(0 if size == 1 and wide != 1 else stride for wide, size, stride in rows)


def _masked(traces: Traces, self_dims: Shape, position: int) -> list[TensorSpec | None]:
    """A mask with as many true entries as its index tensors are long; further index tensors follow it."""
    mask, used = traces.masks[0], len(traces.masks[0].dims)
    further = zip(traces.indices[used:], self_dims[position + used :], strict=False)
    found = [_mask(mask, prod(traces.indices[0][0].dims)), *(_index(one, size) for (one, _), size in further)]
    return [*[None] * position, *found]


def _index(argument: Argument, size: int) -> TensorSpec:
    return TensorSpec(argument.dims, argument.layout, torch_name(argument.kind), Fill("integers", 0, max(size, 1)))


def _mask(argument: Argument, selected: int) -> TensorSpec:
    dims = argument.dims
    return TensorSpec(dims, contiguous(dims), torch_name(argument.kind), Fill("count", 0, min(selected, prod(dims))))
