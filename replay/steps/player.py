"""Runs the calls of a step in order on one device, with its memory reused as recorded.

What was there before the step (parameters, caches, inputs) is made once, with values by its meaning in the first call
that takes it. All else is allocated, viewed and freed through the allocator of PyTorch in the recorded order, so that a
call finds in the cache what the one before it left there.

A call of whose tensors nothing is known runs on inputs of its own; one that cannot run at all is *filled*: the device
waits for the recorded time. Values decide how long some calls take, and wrong ones (an index out of range) break the
device. So a first run checks each call before it is made: integers and masks that are not what their meaning asks for
are replaced by tensors that are.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kerneldb.replay.errors import FAILURES, Reason, UnresolvedCallError, first_line
from kerneldb.replay.resolve.calls import ResolvedCall, Settings, generator
from kerneldb.replay.resolve.tensors import Fill, TensorSpec, make, refill, tensors, torch_dtype, torch_name
from kerneldb.replay.routes import find
from kerneldb.replay.routes.aten import AtenRoute, on_paper
from kerneldb.replay.routes.base import Call
from kerneldb.replay.routes.triton import KernelCall
from kerneldb.replay.steps import exchanges
from kerneldb.replay.steps.exchanges import ALONE_IN_STEP, StepExchange, Together
from kerneldb.replay.steps.given import Meanings
from kerneldb.replay.steps.prepared import Clock, Fills, Prepared, Program
from kerneldb.replay.steps.streams import Lanes, scheduled
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.steps import UNKNOWN, Exchange, Step, StepCall, Tensor

OPTIONS: Final = 12
INFERRED: Final = "inferred from dims"


Around = Callable[[int], contextlib.AbstractContextManager[Any]]


Made = tuple[dict[str, int], frozenset[str], frozenset[str]]
"""How the calls of a step are made: items with another call than their first, and those filled and stood in for."""


class Player:
    """Makes and runs the calls of a step. `attempts` says for each item which of its rebuilt calls is made."""

    def __init__(
        self,
        step: Step,
        items: Mapping[str, Item],
        device: str,
        filled: frozenset[str] = frozenset(),
        together: Together = ALONE_IN_STEP,
    ) -> None:
        self.step = step
        self.items = items
        self.device = device
        self.together = together
        self.lanes = Lanes(scheduled(step), device)
        self.filled: dict[str, str] = dict.fromkeys(filled, "it broke the worker")
        self.attempts: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.prepared: list[Prepared] = []
        self._meanings = Meanings(step, self.prepared)
        self.result: Any = None
        self.keeps_result = False
        self._clock = Clock(device)
        self._standing: dict[str, Item] = {}
        self._options: dict[str, list[tuple[ResolvedCall, Settings]]] = {}
        self._aparts: dict[str, Call] = {}
        self._exchanges: dict[tuple[str, Exchange], StepExchange] = {}
        self._generators = {name: generator(name, 0) for name in {device, "cpu"}}
        self._dtypes = [_dtype(one.dtype) for one in step.tensors]
        self._views: dict[int, list[int]] = defaultdict(list)
        for place, one in enumerate(step.tensors):
            self._views[one.storage].append(place)
        self.unwritten = frozenset(_unwritten(step))
        self._storages: dict[int, Any] = {}
        self._live: dict[int, Any] = {}
        self._kept: set[int] = set()
        self._given: dict[int, tuple[Any, TensorSpec]] = {}

    # What the calls are.

    def prepare(self) -> None:
        """Choose for each call how it is made, by the attempts; what was made for earlier ones is dropped."""
        self.prepared = [self._prepared(call) for call in self.step.calls]
        self._meanings = Meanings(self.step, self.prepared)

    def stand_in(self, name: str, item: Item) -> None:
        """Let the calls of an item be made as those of another one, which is to launch its kernels."""
        self._standing[name] = item

    @property
    def made(self) -> Made:
        """How the calls are made now."""
        attempts = {item: attempt for item, attempt in self.attempts.items() if attempt}
        return attempts, frozenset(self.filled), frozenset(self._standing)

    def further(self, item: str) -> bool:
        """Go on to the next rebuilt call of an item; False where there is none."""
        item = self._standing[item].id if item in self._standing else item
        if self.attempts[item] + 1 >= len(self._options.get(item, ())):
            return False
        self.attempts[item] += 1
        return True

    def fill(self, item: str, reason: str) -> None:
        """Let calls of an item be filled from now on."""
        self.filled[item] = reason

    def again(self, place: int) -> None:
        """Choose anew how a call is made."""
        self.prepared[place] = self._prepared(self.step.calls[place])

    def _prepared(self, call: StepCall) -> Prepared:
        item = self._standing.get(call.item) or self.items.get(call.item)
        if item is None or call.item in self.filled:
            return Prepared()
        try:
            if call.exchange is not None and self.together.can(call.exchange):
                return self._exchange(item, call, call.exchange)
            if item.route != AtenRoute.name or not call.inputs:
                apart = self._apart(item)
                return Prepared(apart=apart, linked=isinstance(apart, KernelCall) and bool(call.inputs))
            if item.id not in self._options:
                self._options[item.id] = list(itertools.islice(on_paper(item, self.device), OPTIONS))
            resolved, settings = self._options[item.id][self.attempts[item.id]]
        except (*FAILURES, LookupError) as error:
            self.filled[call.item] = first_line(error) if not isinstance(error, LookupError) else "no call fits"
            return Prepared()
        made = Prepared(resolved, settings)
        if call.item in self._standing or self.step.method == INFERRED:
            self._own(call, made)
        return made

    def _own(self, call: StepCall, how: Prepared) -> None:
        """Give a call tensors of its own where those of the step have other dims, or are not in host memory."""
        assert how.resolved is not None  # noqa: S101 (the caller has made it)
        for index, (value, slots) in enumerate(zip(how.resolved.values, call.inputs, strict=False)):
            if len(slots) == 1 and slots[0] != UNKNOWN and isinstance(value, TensorSpec):
                tensor = self.step.tensors[slots[0]]
                host = self.step.storages[tensor.storage].host
                if tuple(value.dims) != tensor.dims or bool(value.place) != host:
                    self._tensor(how, (index, 0), value, UNKNOWN)

    def _exchange(self, item: Item, call: StepCall, exchange: Exchange) -> Prepared:
        """A collective that other ranks run at the same time, on tensors of the step."""
        key = item.id, exchange
        if key not in self._exchanges:
            self._exchanges[key] = exchanges.made(item, call, self.together, self.device)
        args: list[Any] = [[None for _ in some] for some in exchanges.places(call)]
        named = zip(args, exchanges.places(call), strict=True)
        fills: list[Fills] = [(target, key, slot, None) for target, slots in named for key, slot in enumerate(slots)]
        made = self._exchanges[key]
        return Prepared(apart=made, linked=True, program=Program(made.on, args, {}, fills))

    def _apart(self, item: Item) -> Call:
        """The first call of a route, with its own inputs. Raises what routes raise."""
        if item.id not in self._aparts:
            self._aparts[item.id] = next(iter(find(item.route).prepare(item, self.device)))
        return self._aparts[item.id]

    # Running.

    def run(self, around: Around | None = None) -> None:
        """Run the step once; each call inside what `around` gives for its place."""
        import torch

        self.begin()
        with torch.no_grad(), self.lanes.open():
            if self.lanes.several or around is not None:
                for place in range(len(self.step.calls)):
                    self.play(place, around)
                return
            for place, call in enumerate(self.step.calls):
                self.before(call)
                self.make(place)
                self.after(call)

    def play(self, place: int, around: Around | None = None) -> None:
        """Make a call with what is allocated before it and freed after it, on its stream."""
        call = self.step.calls[place]
        with self.lanes.at(place):
            self.before(call)
            with contextlib.nullcontext() if around is None else around(place):
                self.make(place)
        self.lanes.release(place, self._storages)
        self.after(call)

    def begin(self) -> None:
        """Free what the step before left over."""
        for storage in [one for one in self._storages if one not in self._kept]:
            self._free(storage)

    def before(self, call: StepCall) -> None:
        """Allocate what the recorded program allocated before a call."""
        for storage in call.allocates:
            self._free(storage)
            self._allocate(storage)

    def after(self, call: StepCall) -> None:
        """Free what it freed after the call."""
        for storage in call.frees:
            if storage not in self._kept:
                self._free(storage)

    def make(self, place: int) -> None:
        """Make a call, and keep what it returns."""
        call, how = self.step.calls[place], self.prepared[place]
        if how.resolved is None and how.program is None and not how.linked:
            if how.apart is not None:
                how.apart.call()
            else:
                self._clock.wait(sum(call.own_ns))
            self._stand_in(call)
            return
        if how.program is None:
            how.program = self._program(call, how)
        program, live = how.program, self._live
        for target, key, slot, spec in program.fills:
            tensor = live.get(slot)
            target[key] = self.view(slot, spec) if tensor is None else tensor
        if how.settings is contextlib.nullcontext:
            result = program.function(*program.args, **program.kwargs)
        else:
            with how.settings():
                result = program.function(*program.args, **program.kwargs)
        for target, key, _, _ in program.fills:
            target[key] = None  # what is freed next must not be held here
        self._bind(call, result)
        self.result = result if self.keeps_result else None

    def made_by(self, call: StepCall) -> list[Any]:
        """The storages that a call returned, and those allocated for it."""
        returned_to = [self.step.tensors[place].storage for place in call.outputs if place != UNKNOWN]
        return [self._storages[one] for one in {*returned_to, *call.allocates} if one in self._storages]

    def _program(self, call: StepCall, how: Prepared) -> Program:
        """A call with the places of what changes from run to run."""
        if isinstance(how.apart, KernelCall):
            return self._launch(call, how, how.apart)
        assert how.resolved is not None  # noqa: S101 (callers look before)
        fills: list[Fills] = []
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        pairs = zip(how.resolved.overload.parameters, how.resolved.values, strict=False)
        for index, (parameter, value) in enumerate(pairs):
            slots = call.inputs[index] if index < len(call.inputs) else ()
            target: Any = kwargs if parameter.keyword else args
            key = parameter.name if parameter.keyword else len(args)
            if parameter.keyword:
                kwargs[parameter.name] = None
            else:
                args.append(None)
            changing = [entry for entry, slot in enumerate(slots) if slot != UNKNOWN and (index, entry) not in how.own]
            if isinstance(value, TensorSpec) and len(slots) == 1 and changing:
                fills.append((target, key, slots[0], value))
                continue
            target[key] = found = self._value(how, index, value, slots)
            if isinstance(value, list) and isinstance(found, list):
                same = len(value) == len(slots)
                for entry in changing if len(found) == len(slots) else ():
                    spec = value[entry] if same and isinstance(value[entry], TensorSpec) else None
                    fills.append((found, entry, slots[entry], spec))
        return Program(how.resolved.overload.function, args, kwargs, fills)

    def _launch(self, call: StepCall, how: Prepared, kernel: KernelCall) -> Program:
        """A launch of a Triton kernel on tensors of the step, where they have its dims and dtype."""
        args, fills = list(kernel.arguments), list[Fills]()
        for place, spec in kernel.specs():
            slot = call.inputs[place][0] if place < len(call.inputs) and call.inputs[place] else UNKNOWN
            if (place, 0) in how.own:
                args[place] = how.own[place, 0]
            elif slot != UNKNOWN and self._is(slot, spec):
                fills.append((args, place, slot, spec))
        return Program(kernel.on, args, {}, fills)

    def _is(self, slot: int, spec: TensorSpec) -> bool:
        tensor = self.step.tensors[slot]
        return tensor.dims == tuple(spec.dims) and torch_name(tensor.dtype) == spec.dtype

    def arguments(self, call: StepCall, how: Prepared) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call: tensors of the step, made ones where those are not known, and plain values."""
        assert how.resolved is not None  # noqa: S101 (callers look before)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        pairs = zip(how.resolved.overload.parameters, how.resolved.values, strict=False)
        for index, (parameter, value) in enumerate(pairs):
            slots = call.inputs[index] if index < len(call.inputs) else ()
            found = self._value(how, index, value, slots)
            if parameter.keyword:
                kwargs[parameter.name] = found
            else:
                args.append(found)
        return args, kwargs

    def _value(self, how: Prepared, index: int, value: Any, slots: Sequence[int]) -> Any:
        if isinstance(value, TensorSpec):
            return self._tensor(how, (index, 0), value, slots[0] if len(slots) == 1 else UNKNOWN)
        if not isinstance(value, list):
            return value
        tensors = any(isinstance(one, TensorSpec) for one in value) or (slots and not value)
        if not tensors:
            return value
        if not slots:
            return [one and self._tensor(how, (index, n), one, UNKNOWN) for n, one in enumerate(value)]
        same = len(value) == len(slots)
        return [self._tensor(how, (index, n), value[n] if same else None, slot) for n, slot in enumerate(slots)]

    def _tensor(self, how: Prepared, key: tuple[int, int], spec: TensorSpec | None, slot: int) -> Any:
        if key in how.own:
            return how.own[key]
        if slot == UNKNOWN:
            if spec is None:
                return None
            how.own[key] = make(spec, self.device, self._generators["cpu" if spec.place else self.device])
            return how.own[key]
        return self.view(slot, spec)

    def arguments_of(self, place: int) -> Iterator[tuple[tuple[int, int], TensorSpec | None, int]]:
        """The tensors that a call takes from the step: argument and entry, what it is to be, and its place there."""
        call, how = self.step.calls[place], self.prepared[place]
        values: Sequence[Any] = () if how.resolved is None else how.resolved.values
        if isinstance(how.apart, KernelCall) and how.linked:
            specs = dict(how.apart.specs())
            values = [specs.get(argument) for argument in range(len(how.apart.arguments))]
        for index, slots in enumerate(call.inputs[: len(values)]):
            value = values[index]
            entries = value if isinstance(value, list) and len(value) == len(slots) else [value] * len(slots)
            if isinstance(value, TensorSpec | list):
                for entry, (spec, slot) in enumerate(zip(entries, slots, strict=True)):
                    if slot != UNKNOWN and (index, entry) not in how.own:
                        yield (index, entry), spec if isinstance(spec, TensorSpec) else None, slot

    def replace(self, place: int, key: tuple[int, int], slot: int, fill: Fill, why: str) -> None:
        """Give a call a tensor of its own in place of one of the step."""
        tensor, how = self.step.tensors[slot], self.prepared[place]
        name = torch_name(tensor.dtype)
        spec = TensorSpec(tensor.dims, tensor.strides, name, fill)
        where = "cpu" if self.step.storages[tensor.storage].host else self.device
        how.own[key] = make(spec, where, self._generators["cpu" if where == "cpu" else self.device])
        how.program = None
        self.notes[f"{how.resolved.overload.name if how.resolved else ''}: {why}"] += 1

    # Memory.

    def view(self, place: int, spec: TensorSpec | None = None) -> Any:
        """The tensor of the step at `place`; one whose storage is not there is made, with the values of `spec`."""
        found = self._live.get(place)
        if found is not None:
            return found
        tensor = self.step.tensors[place]
        if self._dtypes[place] is None:
            raise UnresolvedCallError(Reason.DTYPE, tensor.dtype)
        if tensor.storage not in self._storages:
            self._give(tensor.storage, place, spec)
        made = self._viewed(place, tensor)
        self._live[place] = made
        return made

    def dtype(self, place: int) -> Any:
        """The torch.dtype of a tensor of the step; None where this torch has none."""
        return self._dtypes[place]

    def _viewed(self, place: int, tensor: Tensor) -> Any:
        import torch

        storage = self._storages[tensor.storage]
        made = torch.empty(0, dtype=self._dtypes[place], device=storage.device)
        return made.set_(storage, tensor.offset, tensor.dims, tensor.strides)

    def _allocate(self, storage: int) -> None:
        import torch

        known = self.step.storages[storage]
        where = "cpu" if known.host else self.device
        with self.lanes.home(storage):
            self._storages[storage] = torch.empty(known.bytes, dtype=torch.uint8, device=where).untyped_storage()

    def _give(self, storage: int, place: int, spec: TensorSpec | None) -> None:
        """Make a storage that stays: one from before the step, or one that nothing in the step has made."""
        self._allocate(storage)
        self._kept.add(storage)
        if not self.step.storages[storage].given and self.step.storages[storage].bytes:
            self.notes["tensors that no call of the step made"] += 1
        name = str(self._dtypes[place]).removeprefix("torch.")
        fill = self._meanings.fill(place, name, spec)
        tensor = self.step.tensors[place]
        view = self._viewed(place, tensor)  # what its last dims hold is of this view
        self._given[storage] = view, TensorSpec(tensor.dims, tensor.strides, name, fill)
        self._refill(*self._given[storage])

    def _refill(self, view: Any, spec: TensorSpec) -> None:
        refill(view, spec, self._generators["cpu" if view.device.type == "cpu" else self.device])

    def renew(self) -> None:
        """Give parameters and states their first values again: a training step changes them whenever it runs."""
        for storage, (view, spec) in self._given.items():
            if storage in self._kept and view.is_floating_point():
                self._refill(view, spec)

    def _free(self, storage: int) -> None:
        self._storages.pop(storage, None)
        self._given.pop(storage, None)
        self._kept.discard(storage)
        for place in self._views[storage]:
            self._live.pop(place, None)

    def _bind(self, call: StepCall, result: Any) -> None:
        """Keep the tensors that a call returned under the places that the plan has for them."""
        for place, tensor in zip(call.outputs, tensors(result), strict=False):
            if place == UNKNOWN:
                continue
            planned = self.step.tensors[place]
            held = self._storages.get(planned.storage)
            storage = tensor.untyped_storage()
            if held is not None and held.data_ptr() == storage.data_ptr():
                continue
            if tuple(tensor.shape) != planned.dims or storage.nbytes() < _needed(planned, tensor.element_size()):
                self._stand_in(call)
                continue
            self._free(planned.storage)
            self._storages[planned.storage] = storage
            if tensor.stride() == planned.strides and tensor.storage_offset() == planned.offset:
                self._live[place] = tensor

    def _stand_in(self, call: StepCall) -> None:
        """Make the storages that a call would have returned, where they are not there."""
        for place in call.outputs:
            if place != UNKNOWN and self.step.tensors[place].storage not in self._storages:
                self._give(self.step.tensors[place].storage, place, None)


def _unwritten(step: Step) -> Iterator[int]:
    """Storages that the step allocates and reads before a call has written to them: they hold what was there before.

    Of a call that returns nothing it is not known which of its tensors it writes: all of them, then.
    """
    written = {number for number, one in enumerate(step.storages) if one.given}
    for call in step.calls:
        written |= {step.tensors[place].storage for place in call.outputs if place != UNKNOWN}
        taken = {step.tensors[place].storage for slots in call.inputs for place in slots if place != UNKNOWN}
        if call.outputs:
            yield from taken - written
        else:
            written |= taken


def _dtype(name: str) -> Any:
    """The torch.dtype of a recorded name; None where this torch has none."""
    try:
        return torch_dtype(torch_name(name))
    except UnresolvedCallError:
        return None


def _needed(tensor: Tensor, item_bytes: int) -> int:
    span = 0 if 0 in tensor.dims else 1 + sum((n - 1) * s for n, s in zip(tensor.dims, tensor.strides, strict=True))
    return (tensor.offset + span) * item_bytes if span else 0
