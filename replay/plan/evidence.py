"""Gathers, from recorded operators in time order, the evidence that rebuilding a call needs.

What the profiler leaves out of a call is found in other calls of the trace: the dtype of a tensor list in the children
or in the nearest call with a tensor of the same dims, index tensors in the children, and lists of more than 30 entries
(dropped by `TENSOR_LIST_DISPLAY_LENGTH_LIMIT` of torch/csrc/profiler/util.h) in the gradients of the step. The mask of
attention scores is found in the call that applies it, shortly before their softmax. How many elements a call found
is seen in the next calls, which take them; so are the dims that a convolution or a pool made, where its lists have no
values.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kerneldb.replay.wire.plan import CallSpec, ChildCall, OpCall

GRADIENT: Final = "torch::autograd::AccumulateGrad"
LIST_TYPES: Final = ("TensorList", "GenericList")
SCALAR_TYPES: Final = ("Scalar", "ScalarList", "Int", "Double", "Bool", "ComplexDouble")
"""The last four up to torch 1.12."""
OPTIMIZER_PREFIXES: Final = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_")
ANY: Final = ""
SOFTMAX: Final = "aten::_softmax"
FINDING: Final = frozenset({
    "aten::nonzero", "aten::masked_select", "aten::_unique", "aten::_unique2", "aten::unique_dim",
    "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::repeat_interleave",
})  # fmt: skip
"""Operators with results whose length depends on values."""
WINDOWED: Final = ("conv", "pool")
"""Words in the names of operators whose lists follow from the dims of the result, where they were not recorded."""
TAKING: Final = 6
FLOATS: Final = frozenset({"float", "double", "c10::Half", "c10::BFloat16", "c10::complex<float>"})
FLOATING: Final = "floating "
MASKING: Final = frozenset({"aten::add", "aten::add_", "aten::masked_fill", "aten::masked_fill_", "aten::where"})
REACH: Final = 4000
CHILD_LIMIT: Final = 512

Shape = tuple[str, str]


class Trace:
    """Recorded operators in start order: `calls[i]`, and `parents[i]` the index of the operator around it or None.

    Long traces repeat few calls: where equal ones are one object, the time taken goes with how many differ.
    """

    def __init__(self, calls: Sequence[OpCall], parents: Sequence[int | None]) -> None:
        self.calls = calls
        self.parents = parents
        inner = [index for index, parent in enumerate(parents) if parent is not None]
        self._inner = sorted(inner, key=parents.__getitem__)  # type: ignore[arg-type]  # without those of no parent
        self._outer: list[int] = [parents[index] for index in self._inner]  # type: ignore[misc]
        self._shapes: dict[OpCall, tuple[Shape, ...]] = {}

    def spec(self, index: int) -> CallSpec:
        """The call at `index` with its evidence."""
        call, parent = self.calls[index], self.parents[index]
        counted = itertools.islice(Counter(self._descend(index, 1)).items(), CHILD_LIMIT)
        return CallSpec(
            call=call,
            children=tuple(ChildCall(call, depth, times) for (call, depth), times in counted),
            parent=None if parent is None else self.calls[parent],
            neighbours=self._neighbours(index),
        )

    def inside(self, index: int) -> Iterator[int]:
        """The indices of all operators inside of one."""
        for child in self._below(index):
            yield child
            yield from self.inside(child)

    def _descend(self, index: int, depth: int) -> Iterator[tuple[OpCall, int]]:
        for child in self._below(index):
            yield self.calls[child], depth
            yield from self._descend(child, depth + 1)

    def _below(self, index: int) -> list[int]:
        """The operators right below one, in order."""
        return self._inner[bisect.bisect_left(self._outer, index) : bisect.bisect_right(self._outer, index)]

    def _neighbours(self, index: int) -> tuple[ChildCall, ...]:
        if self.calls[index].op == SOFTMAX:
            return _runs(self._masking(index))
        if self.calls[index].op in FINDING or _lacks_window(self.calls[index]):
            return _runs(self._taking(index))
        dims, types = _field(self.calls[index].input_dims), _field(self.calls[index].input_dtypes)
        lists = [entry for entry, kind in zip(dims, types, strict=False) if kind in LIST_TYPES]
        if not lists:
            return ()
        dropped = any(not entry for entry in lists)
        near = [self.calls[place] for place in self._nearest(index)]
        return _runs([*self._stacked(index), *near, *(self._gradients(index) if dropped else ())])

    def _masking(self, index: int) -> list[OpCall]:
        """The last call shortly before that changed a tensor of the dims of the softmax, if it may have masked it."""
        scores = next(_tensor_shapes(self.calls[index]), None)
        for place in range(index - 1, max(index - 1 - 24, -1), -1):
            call = self.calls[place]
            if call.op in MASKING and scores in self._shapes_of(call):
                return [call]
        return []

    def _taking(self, index: int) -> list[OpCall]:
        """The next calls after those below this one that take a tensor."""
        after = index + 1
        while after < len(self.calls) and self._inside(after, index):
            after += 1
        later = self.calls[after : after + TAKING]
        return [call for call in later if next(_tensor_shapes(call), None) is not None]

    def _inside(self, inner: int, outer: int) -> bool:
        place: int | None = inner
        while place is not None and place > outer:
            place = self.parents[place]
        return place == outer

    def _stacked(self, index: int) -> list[OpCall]:
        """The calls before `index` that the same stack made: one unsqueeze per entry of the list it concatenates."""
        parent = self.parents[index]
        if parent is None or not self.calls[parent].op.endswith("stack"):
            return []
        return [self.calls[sibling] for sibling in self._below(parent) if sibling < index]

    def _nearest(self, index: int) -> list[int]:
        """For every shape in the tensor lists of the call, the closest other call with a tensor of that shape.

        By dims and strides; by dims alone where no call near has both. Optimizers' lists hold floats: masks that were
        made of gradients have their dims, too.
        """
        found: set[int | None] = set()
        kind = FLOATING if self.calls[index].op.startswith(OPTIMIZER_PREFIXES) else ""
        for dims, strides in dict.fromkeys(_list_shapes(self.calls[index])):
            exact = self._near((kind + dims, strides), index)
            found.add(self._near((kind + dims, ANY), index) if exact is None else exact)
        return sorted(place for place in found if place is not None)

    def _near(self, shape: Shape, index: int) -> int | None:
        """The closest other call with a tensor of that shape; of two, the earlier one."""
        found = self._with_shape.get(shape)
        if not found:
            return None
        calls, last = self.calls, len(self.calls) - 1
        for distance in range(1, min(REACH, max(index, last - index) + 1)):
            if distance <= index and id(calls[index - distance]) in found:
                return index - distance
            if index + distance <= last and id(calls[index + distance]) in found:
                return index + distance
        return None

    @functools.cached_property
    def _with_shape(self) -> dict[Shape, set[int]]:
        """The objects among the calls that have a tensor of a shape, by their ids."""
        found: dict[Shape, set[int]] = defaultdict(set)
        for number, call in {id(call): call for call in self.calls}.items():
            for shape in self._shapes_of(call):
                found[shape].add(number)
        return found

    def _shapes_of(self, call: OpCall) -> tuple[Shape, ...]:
        if call not in self._shapes:
            self._shapes[call] = tuple(dict.fromkeys(_tensor_shapes(call)))
        return self._shapes[call]

    def _gradients(self, index: int) -> list[OpCall]:
        """The gradients accumulated in the last backward pass before `index`, last one first.

        Backward visits parameters roughly in reverse, so this is the order of the optimizer's lists.
        """
        found: list[OpCall] = []
        for place in range(index - 1, -1, -1):
            call = self.calls[place]
            if call.op == GRADIENT:
                found.append(call)
            elif found and call.op.startswith(OPTIMIZER_PREFIXES):
                break
        return found


def _lacks_window(call: OpCall) -> bool:
    return call.scalars is None and any(word in call.op for word in WINDOWED)


def _runs(calls: Iterable[OpCall]) -> tuple[ChildCall, ...]:
    """Calls in order, repetitions folded: the order of gradients decides how foreach kernels pack their tensors."""
    return tuple(ChildCall(call, 1, len(list(run))) for call, run in itertools.groupby(calls))


def _field(text: str | None) -> list[Any]:
    parsed = json.loads(text) if text else []
    return parsed if isinstance(parsed, list) else []


def _entries(call: OpCall) -> Iterator[tuple[str, Any, Any]]:
    types, dims = _field(call.input_dtypes), _field(call.input_dims)
    return zip(types, dims, _field(call.input_strides) or [[] for _ in types], strict=False)


def _tensor_shapes(call: OpCall) -> Iterator[Shape]:
    for kind, dims, strides in _entries(call):
        if kind and kind not in LIST_TYPES and kind not in SCALAR_TYPES:
            for prefix in ("", FLOATING) if kind in FLOATS else ("",):
                yield prefix + json.dumps(dims), json.dumps(strides)
                yield prefix + json.dumps(dims), ANY


def _list_shapes(call: OpCall) -> Iterator[Shape]:
    for kind, dims, strides in _entries(call):
        if kind in LIST_TYPES:
            padded = strides if len(strides) == len(dims) else [[] for _ in dims]
            yield from ((json.dumps(one), json.dumps(other)) for one, other in zip(dims, padded, strict=True))
