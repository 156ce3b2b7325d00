"""How long ago the inputs of recorded calls were used: what a cache may still have held of them.

The distance of a use from the one before is what kernels read and wrote between the middles of both calls, in bytes: an
element that a call writes early is read early by the next one. What was there before the step (parameters, caches) was
last used in the step before, at its place there; what no call of the step used before is as far as the whole step.
Parts of one allocation, such as parameters that lie in one buffer, are told apart by where they begin; what used all of
it used each of them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kerneldb.work.tensors import DTYPES, ITEM_BYTES

if TYPE_CHECKING:
    from kerneldb.replay.wire.steps import Step, StepCall

UNKNOWN: Final = -1
USUAL_BYTES: Final = 4
MOST: Final = 0.9
"""The share of an allocation whose use is one of all of it: sizes are rounded up, rows may be padded."""
ALL: Final = -1
"""In place of where a part begins."""
Part = tuple[int, int]
"""A storage, and the element in it that a tensor begins with."""
Distances = tuple[tuple[int, ...], ...]


def distances(step: Step) -> dict[str, Distances]:
    """For each item of the step, by argument and tensor, the median of its calls; -1 where it is not known."""
    moved = [_moved(step, call) for call in step.calls]
    whole = sum(map(sum, moved))  # bytes
    last = _after(step, moved)
    found: dict[str, list[Distances]] = defaultdict(list)
    for call, middle in _middles(step, moved, whole):
        found[call.item].append(
            tuple(tuple(_distance(step, one, last, middle, whole) for one in argument) for argument in call.inputs)
        )
        for one in _used(step, call):
            last[one] = middle
    return {item: _median(listed) for item, listed in found.items()}


def _distance(step: Step, tensor: int, last: Mapping[Part, float], middle: float, whole: int) -> int:
    if tensor == UNKNOWN or step.storages[step.tensors[tensor].storage].host:
        return UNKNOWN
    one = step.tensors[tensor]
    known = [last[key] for key in ((one.storage, one.offset), (one.storage, ALL)) if key in last]
    return round(min(whole, middle - max(known))) if known else whole


def _after(step: Step, moved: list[tuple[int, int]]) -> dict[Part, float]:
    """When what was there before the step was last used in it."""
    last = {part: middle for call, middle in _middles(step, moved, 0) for part in _used(step, call)}
    return {part: middle for part, middle in last.items() if step.storages[part[0]].given}


def _middles(step: Step, moved: list[tuple[int, int]], begin: float) -> Iterator[tuple[StepCall, float]]:
    ends = itertools.accumulate(map(sum, moved), initial=begin)
    return ((call, start + sum(some) / 2) for call, start, some in zip(step.calls, ends, moved, strict=False))


def _used(step: Step, call: StepCall) -> Iterator[Part]:
    """What a call reads or writes: where its tensors begin, and storages of which it uses most."""
    for one in itertools.chain(call.outputs, *call.inputs):
        if one != UNKNOWN:
            storage = step.tensors[one].storage
            yield storage, step.tensors[one].offset
            if _bytes(step, one) >= MOST * step.storages[storage].bytes:
                yield storage, ALL


def _moved(step: Step, call: StepCall) -> tuple[int, int]:
    """What a call reads and writes, in bytes: each tensor once."""
    read = {one for argument in call.inputs for one in argument if one != UNKNOWN}
    return sum(_bytes(step, one) for one in read), sum(_bytes(step, one) for one in set(call.outputs) - {UNKNOWN})


def _bytes(step: Step, tensor: int) -> int:
    one = step.tensors[tensor]
    storage = step.storages[one.storage]
    held = math.prod(size if stride else min(size, 1) for size, stride in zip(one.dims, one.strides, strict=True))
    return 0 if storage.host else min(storage.bytes, held * ITEM_BYTES.get(DTYPES.get(one.dtype, ""), USUAL_BYTES))


def _median(listed: list[Distances]) -> Distances:
    """Of calls of an item, which have equal arguments; lists of different lengths are cut to the shortest."""
    return tuple(
        tuple(round(statistics.median_low(some)) for some in zip(*same, strict=False))
        for same in zip(*listed, strict=False)
    )
