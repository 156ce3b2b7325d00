"""The dataflow of a recorded step: which call wrote what a call reads, and who reads it afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.resolve.tensors import TensorSpec
from kerneldb.replay.steps.player import Player
from kerneldb.replay.steps.prepared import Prepared
from kerneldb.replay.wire.steps import UNKNOWN, Step, StepCall, Tensor

FRAMES: Final = "frames of "
"""Key of the frames of a step among the sources of a plan, with its id."""
CHOSEN: Final = "calls chosen of "
"""Key of the places of the calls that may be changed, likewise."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of a Python function: its file and line as recorded, its name, and the nn.Module class around it."""

    path: str
    line: int
    function: str
    module: str | None = None

    @property
    def name(self) -> str:
        """How a patch names the function: `file:Class.function`, or `file:function`."""
        owner = f"{self.module}." if self.module else ""
        return f"{self.path}:{owner}{self.function}"

    def __str__(self) -> str:
        """For people."""
        owner = f"{self.module}." if self.module else ""
        return f"{self.path}:{self.line} {owner}{self.function}"


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a step, and for each call the numbers of those around it, outermost first."""

    frames: tuple[Frame, ...] = ()
    calls: tuple[tuple[int, ...], ...] = ()


@dataclass
class Node:
    """A call of the step with its operator and arguments; `slots` are its tensors per argument."""

    place: int
    call: StepCall
    how: Prepared

    @property
    def op(self) -> str:
        """The name of its operator, as in `mul`; empty where it is not known how it is called."""
        return "" if self.how.resolved is None else short_name(self.how.resolved.overload.name.split(".")[0])

    @property
    def overload(self) -> Any:
        """The OpOverload."""
        assert self.how.resolved is not None  # noqa: S101 (callers look at `op`)
        return self.how.resolved.overload.function

    def argument(self, name: str) -> Any:
        """The value of an argument by name: a slot of the step for a tensor of it, else the plain value; or None."""
        assert self.how.resolved is not None  # noqa: S101 (callers look at `op`)
        for index, parameter in enumerate(self.how.resolved.overload.parameters):
            if parameter.name == name and index < len(self.how.resolved.values):
                slots = self.inputs[index] if index < len(self.inputs) else ()
                value = self.how.resolved.values[index]
                return Slot(slots[0]) if isinstance(value, TensorSpec) and len(slots) == 1 else value
        return None

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """The slots of each argument that it takes tensors for: a number may have been recorded as one of no dims."""
        if self.how.resolved is None:
            return self.call.inputs
        pairs = zip(self.call.inputs, self.how.resolved.values, strict=False)
        return tuple(slots if isinstance(value, TensorSpec | list) else () for slots, value in pairs)

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """All known slots that it takes."""
        return tuple(one for slots in self.inputs for one in slots if one != UNKNOWN)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Slots that it changes in place."""
        if self.how.resolved is None:
            return ()
        pairs = zip(self.how.resolved.overload.parameters, self.inputs, strict=False)
        return tuple(slot for parameter, slots in pairs if parameter.written for slot in slots if slot != UNKNOWN)


class Slot(int):
    """The place of a tensor in the tables of the step, apart from a plain number."""


@dataclass(slots=True)
class Flow:
    """The calls of a step as they are made by a player after its rehearsal."""

    player: Player
    frames: Frames = field(default_factory=Frames)
    nodes: list[Node] = field(default_factory=list)
    writers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    freed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Look at every call."""
        for place, (call, how) in enumerate(zip(self.step.calls, self.player.prepared, strict=True)):
            node = Node(place, call, how)
            self.nodes.append(node)
            for storage in self.writes(place):
                self.writers[storage].append(place)
            for storage in self.reads(place):
                self.readers[storage].append(place)
            self.freed.update(call.frees)

    @property
    def step(self) -> Step:
        """The step."""
        return self.player.step

    def tensor(self, slot: int) -> Tensor:
        """What a slot is."""
        return self.step.tensors[slot]

    def storage(self, slot: int) -> int:
        """The storage of a slot."""
        return self.step.tensors[slot].storage

    def reads(self, place: int) -> set[int]:
        """The storages that a call takes."""
        return {self.storage(one) for one in self.nodes[place].taken}

    def writes(self, place: int) -> set[int]:
        """The storages that a call makes or changes."""
        node = self.nodes[place]
        return {self.storage(one) for one in (*node.call.outputs, *node.written) if one != UNKNOWN}

    def source(self, slot: int, place: int) -> Node | None:
        """The call before `place` that wrote a tensor last; None where it was there before the step."""
        earlier = [one for one in self.writers[self.storage(slot)] if one < place]
        return self.nodes[earlier[-1]] if earlier else None

    def users(self, node: Node) -> list[Node]:
        """The calls that read what a call wrote, up to the next one that writes all of it anew."""
        storages = self.writes(node.place)
        places = sorted({one for storage in storages for one in self.readers[storage] if one > node.place})
        return [self.nodes[one] for one in places]

    def from_nothing(self, slot: int) -> set[int]:
        """The calls that make a tensor of numbers only, whatever the step is given; none where it is made otherwise."""
        places, above = set[int](), [slot]
        while above:
            taken = above.pop()
            makers = [one for one in self.writers[self.storage(taken)] if one not in places]
            if self.step.storages[self.storage(taken)].given or not all(self.nodes[one].op for one in makers):
                return set()
            places.update(makers)
            above += [one for place in makers for one in self.nodes[place].taken]
        return places

    def result(self, node: Node) -> int:
        """The slot that a call fills: what it returns, else the first that it changes."""
        known = [one for one in (*node.written, *node.call.outputs) if one != UNKNOWN]
        return known[0]

    def functions(self, place: int) -> Sequence[int]:
        """The numbers of the frames around a call, outermost first."""
        return self.frames.calls[place] if place < len(self.frames.calls) else ()

    def runs(self) -> Iterator[tuple[Frame, list[int]]]:
        """Every run of a function with the calls in it."""
        inside: dict[int, list[int]] = defaultdict(list)
        for place in range(len(self.nodes)):
            for number in self.functions(place):
                inside[number].append(place)
        for number, places in sorted(inside.items()):
            yield self.frames.frames[number], places
