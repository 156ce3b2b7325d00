"""Identity of memory in a recorded step: which tensors of its operators are one allocation, from when until when.

An Execution Trace gives every tensor the id of its storage. Ids are addresses in disguise: a storage that was freed and
one that was allocated later share an id (235 allocations shared 142 ids in one small step). So an id stands for one
*epoch* after the other. With memory events of the profiler, whose addresses are found (`addresses`), these say when one
begins and ends. Without them a new epoch begins with the innermost operator that returns a storage which it did not
take, and ends after its last use.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay.steps.addresses import BEFORE, Block, Blocks, Finder, Key, Moment, blocks

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

    @property
    def bytes(self) -> int:
        """Bytes of the storage up to its last element."""
        return self.elements() * item_bytes(self.dtype)

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

    `freed_ns` is when it was freed: as recorded (`told`), else after its last use; None where it outlives the step.
    """

    made_by: int | None = None
    made_ns: int = 0
    last_ns: int = 0
    freed_ns: int | None = None
    host: bool = False
    bytes: int = 0
    told: bool = False

    def seen(self, view: View, now: int) -> None:
        """A tensor of it was used."""
        self.last_ns = max(self.last_ns, now)
        self.bytes = max(self.bytes, view.bytes)


@dataclass(slots=True)
class Memory:
    """The allocations of a step, and its operators by id; the storage of a view is the place of its allocation."""

    epochs: list[Epoch] = field(default_factory=list)
    ops: dict[int, Op] = field(default_factory=dict)


def item_bytes(dtype: str) -> int:
    """Bytes of an element of a dtype as the profiler spells it; 8 for one that is not known."""
    return ITEM_BYTES.get(dtype, 1 if "loat8" in dtype or "int8" in dtype else 8)


class Tracer:
    """Turns the ids of an Execution Trace into allocations, while operators begin and end in order of time.

    `known` has the blocks of the ids whose address is known.
    """

    def __init__(self, known: Mapping[Key, Blocks] | None = None) -> None:
        self.memory = Memory()
        self._known = known or {}
        self._current: dict[Key, int] = {}
        self._places: dict[tuple[Key, int], int] = {}

    def begin(self, op: Op) -> None:
        """An operator begins: what it takes exists."""
        self.memory.ops[op.op_id] = op
        inputs = tuple(tuple(one and self._placed(one, op, op.start_ns) for one in some) for some in op.inputs)
        self.memory.ops[op.op_id] = dataclasses.replace(op, inputs=inputs)

    def end(self, op: Op) -> None:
        """An operator ends, after all below it: what it returns without having taken it is new."""
        took = {(one.storage, one.host) for one in op.taken()}
        for one in op.outputs:
            key = one.storage, one.host
            known = self.memory.epochs[self._current[key]] if key in self._current else None
            old = known is None or known.made_by is None or known.made_ns < op.start_ns
            if key not in self._known and key not in took and old:
                self._new(key, Epoch(op.op_id, op.end_ns, host=one.host))
        outputs = tuple(self._placed(one, op, op.end_ns) for one in op.outputs)
        self.memory.ops[op.op_id] = dataclasses.replace(self.memory.ops[op.op_id], outputs=outputs)

    def _placed(self, view: View, op: Op, now: int) -> View:
        key = view.storage, view.host
        place = self._of_block(key, op, now) if key in self._known else self._current.get(key)
        if place is None:
            place = self._new(key, Epoch(host=view.host))
        self.memory.epochs[place].seen(view, now)
        return dataclasses.replace(view, storage=place)

    def _of_block(self, key: Key, op: Op, now: int) -> int:
        """The allocation of an id whose address is known: the block that is there then."""
        known = self._known[key]
        number = known.at(now)
        if (key, number) not in self._places:
            block = known.listed[number] if number >= 0 else Block(BEFORE, None, 0)
            maker = self._around(op, block.made_ns)
            made_ns = 0 if maker is None else block.made_ns
            epoch = Epoch(maker, made_ns, freed_ns=block.freed_ns, host=key[1], told=True)
            self._places[key, number] = self._new(key, epoch)
        return self._places[key, number]

    def _around(self, op: Op, moment_ns: int) -> int | None:
        """The operator in which a block was allocated: this one, or the nearest around it that ran then."""
        found: Op | None = op
        while found is not None and not found.start_ns <= moment_ns <= found.end_ns:
            found = None if found.parent is None else self.memory.ops.get(found.parent)
        return None if found is None else found.op_id

    def _new(self, key: Key, epoch: Epoch) -> int:
        self._current[key] = len(self.memory.epochs)
        self.memory.epochs.append(epoch)
        return self._current[key]


def in_time(ops: Iterable[Op]) -> Iterator[tuple[bool, Op]]:
    """Operators as they begin (True) and end (False): those around others begin before them and end after them."""
    listed = list(ops)
    begun = [(one.start_ns, 1, -one.end_ns, place) for place, one in enumerate(listed)]
    ended = [(one.end_ns, 0, -one.start_ns, -place) for place, one in enumerate(listed)]
    for _, kind, _, place in sorted([*begun, *ended]):
        yield kind == 1, listed[abs(place)]


def traced(ops: Iterable[Op], known: Mapping[Key, Blocks] | None = None) -> Memory:
    """The memory of operators whose views have the ids of an Execution Trace."""
    tracer = Tracer(known)
    for begins, op in in_time(ops):
        (tracer.begin if begins else tracer.end)(op)
    return tracer.memory


def recalled(ops: Sequence[Op], earlier: Sequence[Op], moments: Sequence[Moment], *, host: bool) -> tuple[Memory, bool]:
    """The memory of operators, and whether memory events said when most of its bytes were freed.

    Those `earlier` than the step are looked at for the addresses of what was there before it.
    """
    listed = blocks(moments)
    found = traced(ops, Finder([*earlier, *ops], listed, host=host).found())
    return found, settle(found, moments, host=host)


def settle(memory: Memory, moments: Sequence[Moment], *, host: bool = False) -> bool:
    """Say of each allocation of the step when it was freed; whether memory events said so for most of its bytes.

    Of allocations on devices, or with `host` of those in host memory. Where the address is not known, one is the
    smallest one that fits and happened inside the operator that made it. Where none is recorded, it is freed after its
    last use.
    """
    listed = [one for some in blocks(moments).values() for one in some.listed if one.made_ns != BEFORE]
    listed.sort(key=lambda one: one.made_ns)
    made = [one for one in memory.epochs if one.made_by is not None and one.host is host]
    told = {one.made_ns for one in made if one.told}
    free = [one for one in listed if one.made_ns not in told]
    times = [one.made_ns for one in free]
    taken = set[int]()
    for epoch in made:
        if not epoch.told:
            _match(memory, epoch, free, times, taken)
    known = sum(one.bytes for one in made if one.told)
    return known > 0 and known >= sum(one.bytes for one in made) / 2


def _match(memory: Memory, epoch: Epoch, free: Sequence[Block], times: Sequence[int], taken: set[int]) -> None:
    op = memory.ops[epoch.made_by or 0]
    inside = range(bisect.bisect_left(times, op.start_ns), bisect.bisect_right(times, op.end_ns))
    fits = [place for place in inside if place not in taken and free[place].bytes >= epoch.bytes]
    place = min(fits, key=lambda one: free[one].bytes, default=None)
    if place is None:
        epoch.freed_ns = epoch.last_ns
        return
    taken.add(place)
    freed, epoch.told = free[place].freed_ns, True
    epoch.freed_ns = None if freed is None else max(freed, epoch.last_ns)


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
