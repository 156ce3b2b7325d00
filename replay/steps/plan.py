"""Makes a step from its operators, their memory, and the calls that launched kernels.

A call is the outermost operator that launches kernels itself, with all kernels below it: running it again runs what is
below. What its callers do beside (allocating, viewing) needs no call: a tensor is its storage, offset, dims and
strides.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kerneldb.replay.steps.memory import Memory, Op, View
from kerneldb.replay.wire.steps import UNKNOWN, Exchange, StepCall, Storage, Tensor


@dataclass(frozen=True, slots=True)
class Unit:
    """A call of the step: its item, its operator (None where none is known), its start, stream and kernel durations.

    Of a collective also what it exchanges, and how much of the durations it waited, where that is known.
    """

    item: str
    op_id: int | None
    start_ns: int
    stream: int = 0
    recorded_ns: tuple[int, ...] = ()
    exchange: Exchange | None = None
    waited_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A stream waits, from a time of the host on, for what another one had been given until a time."""

    stream: int
    at_ns: int
    on_stream: int
    until_ns: int


@dataclass(slots=True)
class Parts:
    """What a step is made of."""

    storages: list[Storage] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    calls: list[StepCall] = field(default_factory=list)


def owners(
    launching: Iterable[int], parents: Mapping[int, int | None], callable_: Mapping[int, bool]
) -> dict[int, int]:
    """For each operator that launches kernels the outermost one around it that does too; itself where there is none.

    Only operators that can be called again count, others stand for themselves.
    """
    launches = set(launching)
    found: dict[int, int] = {}
    for op in launches:
        outermost, above = op, parents.get(op)
        while above is not None and callable_.get(op, False):
            if above in launches and callable_.get(above, False):
                outermost = above
            above = parents.get(above)
        found[op] = outermost
    return found


class Builder:
    """Numbers the storages and tensors that calls use."""

    def __init__(self, memory: Memory, units: Sequence[Unit], waits: Iterable[StreamWait] = ()) -> None:
        self._memory = memory
        self._units = sorted(units, key=lambda one: one.start_ns)
        self._after = _awaited(self._units, waits)
        self._starts = [one.start_ns for one in self._units]
        self._storages: dict[int, int] = {}
        self._tensors: dict[Tensor, int] = {}

    def parts(self) -> Parts:
        """Storages, tensors and calls."""
        within = _within_units(self._memory, {one.op_id for one in self._units if one.op_id is not None})
        calls = [self._call(unit, self._after[place]) for place, unit in enumerate(self._units)]
        allocates, frees = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        storages = []
        for epoch_place, place in self._storages.items():
            epoch = self._memory.epochs[epoch_place]
            storages.append(Storage(epoch.bytes, given=epoch.made_by is None, host=epoch.host))
            if epoch.made_by is not None and within.get(epoch.made_by) is None:
                allocates[bisect.bisect_left(self._starts, epoch.made_ns)].append(place)
            if epoch.freed_ns is not None and (epoch.made_by is not None or epoch.told):
                frees[max(bisect.bisect_right(self._starts, epoch.freed_ns) - 1, 0)].append(place)
        made = [
            dataclasses.replace(call, allocates=tuple(allocates[place]), frees=tuple(frees[place]))
            for place, call in enumerate(calls)
        ]
        return Parts(storages, list(self._tensors), made)

    def _call(self, unit: Unit, after: Iterable[int]) -> StepCall:
        op = Op(-1, None, 0, 0) if unit.op_id is None else self._memory.ops[unit.op_id]
        inputs = tuple(tuple(UNKNOWN if one is None else self._tensor(one) for one in some) for some in op.inputs)
        outputs = tuple(self._tensor(one) for one in op.outputs)
        known = {name: getattr(unit, name) for name in ("stream", "recorded_ns", "exchange", "waited_ns")}
        return StepCall(unit.item, inputs, outputs, after=tuple(sorted(after)), **known)

    def _tensor(self, view: View) -> int:
        if view.storage < 0:
            return UNKNOWN
        storage = self._storages.setdefault(view.storage, len(self._storages))
        tensor = Tensor(storage, view.dims, view.strides, view.dtype, view.offset)
        return self._tensors.setdefault(tensor, len(self._tensors))


def _awaited(units: Sequence[Unit], waits: Iterable[StreamWait]) -> dict[int, set[int]]:
    """For each unit, of units in order, the places of those on other streams that its stream was told to wait for."""
    found: dict[int, set[int]] = defaultdict(set)
    places: dict[int, list[int]] = defaultdict(list)
    for place, unit in enumerate(units):
        places[unit.stream].append(place)
    for wait in waits:
        later = next((one for one in places[wait.stream] if units[one].start_ns >= wait.at_ns), None)
        earlier = [one for one in places[wait.on_stream] if units[one].start_ns < wait.until_ns]
        if later is not None and earlier and earlier[-1] < later:
            found[later].add(earlier[-1])
    return found


def _within_units(memory: Memory, units: set[int]) -> dict[int, int | None]:
    """For each operator the unit around it, or that it is."""
    found: dict[int, int | None] = {}
    for op_id, op in sorted(memory.ops.items(), key=lambda one: (one[1].start_ns, -one[1].end_ns)):
        above = None if op.parent is None else found.get(op.parent)
        found[op_id] = above if above is not None else (op_id if op_id in units else None)
    return found
