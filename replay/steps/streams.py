"""Calls that ran on other streams than most of the step: each on a stream of its own, in an order that is safe.

Which call waits for which is what the trace has of streams that wait for others' events, and follows from the data: one
that takes what a call on another stream returned waits for it, and one that writes what another stream still reads
waits for that. A freed allocation that another stream may still use is not given away before that stream is done with
it.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay.wire.steps import UNKNOWN, Step, StepCall

MAIN: Final = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The stream of each call (0: the one that most ran on), and the calls on other streams that it waits for.

    `noted` are the places of calls that are waited for; with `told`, some are those that the trace names. `homes` are
    the streams that allocate what other streams than the first use; `shared` says of the place after which an
    allocation is freed which streams may still use it.
    """

    streams: tuple[int, ...]
    waits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    noted: frozenset[int] = frozenset()
    homes: Mapping[int, int] = field(default_factory=dict)
    shared: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    told: bool = False

    @property
    def count(self) -> int:
        """How many streams there are."""
        return len(set(self.streams)) or 1


def numbered(step: Step) -> tuple[int, ...]:
    """The stream of each call: 0 for the one with most calls, the others in the order of their first call."""
    recorded = [call.stream for call in step.calls]
    counts = Counter(recorded)
    first = max(counts, key=lambda one: counts[one], default=0)
    numbers = {first: MAIN}
    for one in recorded:
        numbers.setdefault(one, len(numbers))
    return tuple(numbers[one] for one in recorded)


def scheduled(step: Step) -> Schedule:
    """When each call of a step may begin."""
    streams = numbered(step)
    return Schedule(streams) if len(set(streams)) < 2 else _Order(step, streams).schedule()  # noqa: PLR2004 (one stream)


class _Order:
    """Goes through the calls, and keeps what each stream is known to come after: the last call of every other one."""

    def __init__(self, step: Step, streams: Sequence[int]) -> None:
        self._step = step
        self._streams = streams
        self._after: dict[int, dict[int, int]] = defaultdict(dict)
        self._known: list[dict[int, int]] = []
        self._writes: dict[int, dict[int, int]] = defaultdict(dict)
        self._reads: dict[int, dict[int, int]] = defaultdict(dict)
        self._homes: dict[int, int] = {}

    def schedule(self) -> Schedule:
        """The whole."""
        waits, shared = dict[int, tuple[int, ...]](), dict[int, tuple[tuple[int, int], ...]]()
        for place, call in enumerate(self._step.calls):
            waits[place] = tuple(self._waits(place, call))
            self._took_place(place, call)
            shared[place] = tuple(self._still_used(call))
        found = {place: some for place, some in waits.items() if some}
        noted = frozenset(one for some in found.values() for one in some)
        homes = {storage: home for storage, home in self._homes.items() if home != MAIN}
        left = {place: some for place, some in shared.items() if some}
        told = any(call.after for call in self._step.calls)
        return Schedule(tuple(self._streams), found, noted, homes, left, told)

    def _waits(self, place: int, call: StepCall) -> Iterator[int]:
        """The calls that a call waits for: of each other stream the last one that stands in its way."""
        stream, needed = self._streams[place], dict[int, int]()
        for at in call.after:
            needed[self._streams[at]] = max(needed.get(self._streams[at], -1), at)
        taken, written = uses(self._step, call)
        for storage in taken | written:
            before = [self._writes[storage], *([self._reads[storage]] if storage in written else [])]
            for other, at in (one for some in before for one in some.items()):
                if other != stream:
                    needed[other] = max(needed.get(other, -1), at)
        for other, at in sorted(needed.items()):
            if other != stream and self._after[stream].get(other, -1) < at:
                yield at
                for third, last in {**self._known[at], other: at}.items():
                    self._after[stream][third] = max(self._after[stream].get(third, -1), last)

    def _took_place(self, place: int, call: StepCall) -> None:
        stream = self._streams[place]
        taken, written = uses(self._step, call)
        for storage in taken | written:
            self._homes.setdefault(storage, stream)
        for storage in written:
            self._writes[storage] = {stream: place}
            self._reads[storage] = {}
        for storage in taken - written:
            self._reads[storage][stream] = place
        self._known.append(dict(self._after[stream]))

    def _still_used(self, call: StepCall) -> Iterator[tuple[int, int]]:
        """Of what is freed after a call: the streams whose end with it the stream that allocated it does not await."""
        for storage in call.frees:
            home = self._homes.get(storage, MAIN)
            for other, at in {**self._writes[storage], **self._reads[storage]}.items():
                if other != home and self._after[home].get(other, -1) < at:
                    yield storage, other


def uses(step: Step, call: StepCall) -> tuple[set[int], set[int]]:
    """The storages that a call takes, and those that it writes: of one that returns nothing all that it takes."""
    taken = {step.tensors[one].storage for slots in call.inputs for one in slots if one != UNKNOWN}
    written = {step.tensors[one].storage for one in call.outputs if one != UNKNOWN}
    return taken, written if call.outputs else set(taken)


class Lanes:
    """The streams of a device on which a schedule runs; with one stream, or on a CPU, there is nothing to do."""

    def __init__(self, schedule: Schedule, device: str) -> None:
        self.schedule = schedule
        self.several = device != "cpu" and schedule.count > 1
        self._streams: list[Any] = []
        self._events: dict[int, Any] = {}

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Within this block calls may run on all streams, which begin after the current one, and end before it."""
        if not self.several:
            yield
            return
        import torch

        main = torch.cuda.current_stream()
        if not self._streams:
            self._streams = [main, *(torch.cuda.Stream() for _ in range(1, self.schedule.count))]
        self._streams[MAIN] = main
        self._events = {}
        for one in self._streams[1:]:
            one.wait_stream(main)
        yield
        for one in self._streams[1:]:
            main.wait_stream(one)

    @contextlib.contextmanager
    def at(self, place: int) -> Iterator[None]:
        """Within this block the current stream is that of a call, which comes after those that it waits for."""
        if not self.several:
            yield
            return
        import torch

        own = self._streams[self.schedule.streams[place]]
        for one in self.schedule.waits.get(place, ()):
            if one in self._events:  # else it was before the block that is open
                own.wait_event(self._events[one])
        with torch.cuda.stream(own) if own is not self._streams[MAIN] else contextlib.nullcontext():
            yield
            if place in self.schedule.noted:
                self._events[place] = own.record_event()

    def home(self, storage: int) -> contextlib.AbstractContextManager[object]:
        """Within this block the stream that a storage belongs to is the current one."""
        if not self._streams:
            return contextlib.nullcontext()
        import torch

        own: contextlib.AbstractContextManager[object] = torch.cuda.stream(
            self._streams[self.schedule.homes.get(storage, MAIN)]
        )
        return own

    def release(self, place: int, storages: Mapping[int, Any]) -> None:
        """Let what is freed after a call stay until streams that still use it are done."""
        if not self.several:
            return
        import torch

        for storage, stream in self.schedule.shared.get(place, ()):
            held = storages.get(storage)
            if held is not None and held.device.type == "cuda":
                whole = torch.empty(0, dtype=torch.uint8, device=held.device).set_(held)
                whole.record_stream(self._streams[stream])
