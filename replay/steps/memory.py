"""Identity of memory in a recorded step: which tensors of its operators are one allocation, from when until when.

An Execution Trace gives every tensor the id of its storage. Ids are addresses in disguise: a storage that was freed and
one that was allocated later share an id (235 allocations shared 142 ids in one small step). So an id stands for one
*epoch* after the other. A new epoch begins with the innermost operator that returns a storage which it did not take.
Memory events of the profiler say when an allocation was freed; without them, that is after its last use.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CPU: Final = "cpu"
ITEM_BYTES: Final = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "bool": 1, "long int": 8, "long": 8, "int": 4,
    "short int": 2, "signed char": 1, "unsigned char": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
    "c10::complex<c10::Half>": 4, "short unsigned int": 2, "unsigned int": 4, "long unsigned int": 8,
}  # fmt: skip
"""Bytes of an element, by the profiler's name of its dtype."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of an operator: storage (an id of the recording, or an epoch), offset, dims, strides, dtype, device."""

    storage: int
    offset: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str = CPU

    @property
    def host(self) -> bool:
        """Whether it lies in host memory."""
        return self.device.startswith(CPU)

    def elements(self) -> int:
        """Elements of the storage up to its last one."""
        if 0 in self.dims:
            return self.offset
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True))


@dataclass(slots=True)
class Op:
    """An operator of the step in time: `inputs` per argument (None: no tensor there; views, None for an absent one)."""

    op_id: int
    parent: int | None
    start_ns: int
    end_ns: int
    name: str = ""
    inputs: tuple[tuple[View | None, ...], ...] = ()
    outputs: tuple[View, ...] = ()

    def taken(self) -> Iterator[View]:
        """The tensors that it took."""
        return (view for argument in self.inputs for view in argument if view is not None)


@dataclass(slots=True)
class Epoch:
    """One allocation. `made_by` is the op that it came from, None where it was there before; times in ns.

    `freed_ns` is when it was freed: as recorded, else after its last use; None where it outlives the step.
    """

    made_by: int | None = None
    made_ns: int = 0
    last_ns: int = 0
    freed_ns: int | None = None
    host: bool = False
    bytes: int = 0

    def seen(self, view: View, now: int) -> None:
        """A tensor of it was used."""
        self.last_ns = max(self.last_ns, now)
        self.bytes = max(self.bytes, view.elements() * item_bytes(view.dtype))


@dataclass(slots=True)
class Memory:
    """The allocations of a step, and its operators by id; the storage of a view is the place of its allocation."""

    epochs: list[Epoch] = field(default_factory=list)
    ops: dict[int, Op] = field(default_factory=dict)


def item_bytes(dtype: str) -> int:
    """Bytes of an element of a dtype as the profiler spells it; 8 for one that is not known."""
    return ITEM_BYTES.get(dtype, 1 if "loat8" in dtype or "int8" in dtype else 8)


class Tracer:
    """Turns the ids of an Execution Trace into allocations, while operators begin and end in order of time."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._current: dict[tuple[int, bool], int] = {}

    def begin(self, op: Op) -> None:
        """An operator begins: what it takes exists."""
        inputs = tuple(tuple(one and self._placed(one, op.start_ns) for one in argument) for argument in op.inputs)
        self.memory.ops[op.op_id] = dataclasses.replace(op, inputs=inputs)

    def end(self, op: Op) -> None:
        """An operator ends, after all below it: what it returns without having taken it is new."""
        took = {(one.storage, one.host) for one in op.taken()}
        for one in op.outputs:
            key = one.storage, one.host
            known = self.memory.epochs[self._current[key]] if key in self._current else None
            if key not in took and (known is None or known.made_by is None or known.made_ns < op.start_ns):
                self._new(key, Epoch(op.op_id, op.end_ns, host=one.host))
        outputs = tuple(self._placed(one, op.end_ns) for one in op.outputs)
        self.memory.ops[op.op_id] = dataclasses.replace(self.memory.ops[op.op_id], outputs=outputs)

    def _placed(self, view: View, now: int) -> View:
        key = view.storage, view.host
        if key not in self._current:
            self._new(key, Epoch(host=view.host))
        place = self._current[key]
        self.memory.epochs[place].seen(view, now)
        return dataclasses.replace(view, storage=place)

    def _new(self, key: tuple[int, bool], epoch: Epoch) -> None:
        self._current[key] = len(self.memory.epochs)
        self.memory.epochs.append(epoch)


def in_time(ops: Iterable[Op]) -> Iterator[tuple[bool, Op]]:
    """Operators as they begin (True) and end (False): those around others begin before them and end after them."""
    listed = list(ops)
    begun = [(one.start_ns, 1, -one.end_ns, place) for place, one in enumerate(listed)]
    ended = [(one.end_ns, 0, -one.start_ns, -place) for place, one in enumerate(listed)]
    for _, kind, _, place in sorted([*begun, *ended]):
        yield kind == 1, listed[abs(place)]


def traced(ops: Iterable[Op]) -> Memory:
    """The memory of operators whose views have the ids of an Execution Trace."""
    tracer = Tracer()
    for begins, op in in_time(ops):
        (tracer.begin if begins else tracer.end)(op)
    return tracer.memory


@dataclass(frozen=True, slots=True)
class Moment:
    """A memory event: bytes allocated at an address, or freed (negative), on a device (not in host memory)."""

    ts_ns: int
    address: str
    bytes: int


def settle(memory: Memory, moments: Sequence[Moment], *, host: bool = False) -> bool:
    """Say of each allocation of the step when it was freed; whether memory events said so for most of its bytes.

    Of allocations on devices, or with `host` of those in host memory. One is the smallest one that fits and happened
    inside the operator that made it. Where none is recorded, it is freed after its last use.
    """
    frees: dict[str, list[int]] = defaultdict(list)
    for one in moments:
        if one.bytes < 0:
            frees[one.address].append(one.ts_ns)
    made = sorted((one for one in moments if one.bytes > 0), key=lambda one: one.ts_ns)
    times, taken = [one.ts_ns for one in made], set[int]()
    told = total = 0
    for epoch in memory.epochs:
        if epoch.made_by is None or epoch.host is not host:
            continue
        op, total = memory.ops[epoch.made_by], total + epoch.bytes
        inside = range(bisect.bisect_left(times, op.start_ns), bisect.bisect_right(times, op.end_ns))
        fits = [place for place in inside if place not in taken and made[place].bytes >= epoch.bytes]
        place = min(fits, key=lambda one: made[one].bytes, default=None)
        if place is None:
            epoch.freed_ns = epoch.last_ns
            continue
        taken.add(place)
        told += epoch.bytes
        later = frees[made[place].address]
        after = bisect.bisect_right(later, made[place].ts_ns)
        freed = later[after] if after < len(later) else None
        epoch.freed_ns = None if freed is None else max(freed, epoch.last_ns)
    return total > 0 and told >= total / 2


def views(text: str | None) -> tuple[tuple[View | None, ...], ...]:
    """The tensors of an operator as `op_tensors` has them: per argument. Raises ValueError for another text."""
    try:
        arguments = json.loads(text) if text else []
        return tuple(_argument(one) for one in arguments)
    except (TypeError, LookupError, RecursionError) as error:
        message = f"not the tensors of an operator: {str(text)[:60]!r}"
        raise ValueError(message) from error


def _argument(given: Any) -> tuple[View | None, ...]:
    if given is None:
        return ()
    if given and not isinstance(given[0], int):
        return tuple(None if one is None else _view(one) for one in given)
    return (_view(given),) if given else ()


def _view(given: Sequence[Any]) -> View:
    storage, offset, dims, strides, dtype, device = given
    return View(int(storage), int(offset), tuple(map(int, dims)), tuple(map(int, strides)), str(dtype), str(device))
