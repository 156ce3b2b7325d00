"""Runs of a step with calls replaced, and how much less time they take, measured in turns with the step as recorded.

`busy` is time of the device: of CUDA graphs of both on a GPU, of the process on a CPU. `wall` is that of the step made
call by call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay.errors import FAILURES
from kerneldb.replay.recording.measuring import Interval, interval
from kerneldb.replay.rewrites.base import Function, Proposal
from kerneldb.replay.rewrites.region import CannotTryError, Region, conforming, graph
from kerneldb.replay.steps.graphs import Captured, capture
from kerneldb.replay.steps.player import Player
from kerneldb.replay.steps.prepared import Fills, Prepared, Program
from kerneldb.replay.wire.improvements import Times
from kerneldb.replay.wire.steps import StepCall

ROUNDS: Final = 9
LEAST_SECONDS: Final = 0.02
OVERLAP: Final = "covers the same calls as"
BUSY: Final = 1.1
"""Wall over busy time below which the device holds a step back."""

AGAIN_S: Final = 1.0


class TimeIsOver(BaseException):
    """What was tried takes longer than it may. No Exception: compilers catch those, and go on."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Break off by TimeIsOver what takes longer: a compiler that chooses by measurement has no limit of its own."""

    def over(*_: object) -> None:
        raise TimeIsOver

    before, left = signal.signal(signal.SIGALRM, over), 0.0
    try:
        # again and again: some parts of a compiler catch everything, and go on
        left, _ = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class Variant:
    """A step as it is to run: its calls, how each is made, and the settings around all of it."""

    calls: tuple[StepCall, ...]
    prepared: list[Prepared]
    arounds: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = ()
    captured: Captured | None = None
    uncaptured: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """Time of a step before and after [ns], and the share of it that is saved with its 95 % interval."""

    before_ns: float
    after_ns: float
    gain: Interval


@dataclass(slots=True)
class Bench:
    """Runs variants of one step on the memory of a rehearsed player."""

    player: Player
    on_cpu: bool
    seconds: float
    meter: Callable[[Callable[[], object], Callable[[], object]], tuple[Times | None, str | None]]
    base: Variant = field(init=False)

    def __post_init__(self) -> None:
        """The step as recorded."""
        self.base = Variant(self.player.step.calls, list(self.player.prepared))

    def variant(self, chosen: Sequence[tuple[Proposal, Function | None]]) -> Variant:
        """The step with these proposals. Raises CannotTryError where two are about the same call."""
        calls, prepared = list(self.base.calls), list(self.base.prepared)
        taken = set[int]()
        for proposal, function in chosen:
            if proposal.region is None or function is None:
                continue
            if taken & set(proposal.region.places):
                raise CannotTryError(OVERLAP)
            taken |= set(proposal.region.places)
            _substitute(calls, prepared, proposal.region, function)
        arounds = dict.fromkeys(one.around for one, _ in chosen if one.around is not contextlib.nullcontext)
        return Variant(tuple(calls), prepared, tuple(arounds))

    def play(self, variant: Variant) -> None:
        """Run a variant once, call by call."""
        self.use(variant)
        with contextlib.ExitStack() as stack:
            for around in variant.arounds:
                stack.enter_context(around())
            self.player.run()

    def use(self, variant: Variant) -> None:
        """Let the player run a variant from now on."""
        self.player.step = dataclasses.replace(self.player.step, calls=variant.calls)
        self.player.prepared = variant.prepared

    def compare(self, first: Variant, second: Variant) -> tuple[Compared | None, Compared]:
        """Busy time (None where it is not known) and wall time of two variants."""
        plays: list[Callable[[], object]] = [lambda: self.play(first), lambda: self.play(second)]
        for play in plays * 2:
            play()
        if self.on_cpu:
            return _in_turns(plays, time.process_time, self.seconds), _in_turns(plays, time.perf_counter, self.seconds)
        busy = None
        graphs = [self.graph(one) for one in (first, second)]
        if all(graphs):
            busy = _in_turns([one.replay for one in graphs if one is not None], _device_clock, self.seconds)
        return busy, _in_turns(plays, _device_clock, self.seconds)

    def graph(self, variant: Variant) -> Captured | None:
        """The CUDA graphs of a variant, captured once; None where it cannot be, for the reason in `uncaptured`."""
        if variant.captured is None and variant.uncaptured is None:
            self.use(variant)
            try:
                with contextlib.ExitStack() as stack:
                    for around in variant.arounds:
                        stack.enter_context(around())
                    variant.captured = capture(self.player, set())
            except FAILURES as error:
                variant.uncaptured = str(error).splitlines()[0]
            self.player.begin()
        return variant.captured

    def whole(self, variant: Variant) -> Compared:
        """Wall time of a variant made call by call, and as CUDA graphs.

        Raises CannotTryError where there are none, and for a step as recorded in which the device hardly waited.
        """
        step = self.player.step
        if not variant.arounds and variant.calls == self.base.calls and step.span_ns < BUSY * step.busy_ns:
            share = step.busy_ns / step.span_ns
            raise CannotTryError(f"the device was busy for {share:.0%} of the step, and a profiler delays the host")
        captured = self.graph(variant)
        if captured is None:
            raise CannotTryError(f"it cannot be captured in a CUDA graph: {variant.uncaptured}")
        return self.walls(variant, captured)

    def walls(self, variant: Variant, captured: Captured) -> Compared:
        """Wall time of a variant made call by call, at most that of the recording, and of CUDA graphs."""
        found = _in_turns([lambda: self.play(variant), captured.replay], _device_clock, self.seconds)
        return at_most(self.player.step.span_ns, found)

    def energy(self, variant: Variant) -> tuple[Times | None, str | None]:
        """Energy of the step as recorded and of a variant; why there is none."""
        return self.meter(self.playing(self.base), self.playing(variant))

    def playing(self, variant: Variant) -> Callable[[], object]:
        """What runs a variant without the host in the way, where that is possible."""
        captured = None if self.on_cpu else self.graph(variant)
        return captured.replay if captured is not None else lambda: self.play(variant)

    def alone(self, proposal: Proposal, function: Function, inputs: Sequence[Any]) -> Compared | None:
        """The original calls of a region and what replaces them, by themselves, on inputs of the step."""
        import torch

        if proposal.region is None:
            return None
        original = graph(proposal.region)
        sets = [[one.clone() for one in inputs] for _ in range(1 if self.on_cpu else 3)]
        turn = iter(range(1 << 60))

        def calling(called: Function) -> Callable[[], object]:
            return lambda: called(*sets[next(turn) % len(sets)])

        plays = [calling(original), calling(function)]
        clock = time.process_time if self.on_cpu else _device_clock
        with torch.no_grad():
            for play in plays * 2:
                play()
            if not self.on_cpu:
                with contextlib.suppress(*FAILURES):
                    plays = [_graphed(original, sets), _graphed(function, sets)]
            return _in_turns(plays, clock, self.seconds / 2)


def at_most(recorded_ns: float, found: Compared) -> Compared:
    """What is saved of a step that took no longer than recorded.

    Our loop over the calls may wait for the host where the program did not, even with a profiler.
    """
    if not 0 < recorded_ns < found.before_ns:
        return found
    longer = found.before_ns / recorded_ns
    gain = Interval(*(1 - longer * (1 - one) for one in (found.gain.value, found.gain.low, found.gain.high)))
    return Compared(recorded_ns, found.after_ns, gain)


def _graphed(function: Function, sets: Sequence[Sequence[Any]]) -> Callable[[], object]:
    """Calls on each of the sets of inputs, as a CUDA graph."""
    import torch

    stream, made = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for inputs in sets:
            function(*inputs)
    torch.cuda.synchronize()
    with torch.cuda.graph(made, stream=stream):
        for inputs in sets:
            function(*inputs)
    return made.replay  # type: ignore[no-any-return]


def _device_clock() -> float:
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def _in_turns(plays: Sequence[Callable[[], object]], clock: Callable[[], float], seconds: float) -> Compared:
    """Both in turns: as many runs of each in a round as take long enough for the clock, the order changing."""
    once = max(_timed(play, 1, clock) for play in plays)
    counts = max(1, round(max(seconds / ROUNDS / 2, LEAST_SECONDS) / max(once, 1e-6)))
    rounds = []
    for number in range(ROUNDS):
        times = [0.0, 0.0]
        for one in (0, 1) if number % 2 else (1, 0):
            times[one] = _timed(plays[one], counts, clock)
        rounds.append(times)
    gains = [1 - after / before for before, after in rounds if before > 0] or [0.0]
    middle = sorted(gains)[1:-1] if len(gains) > 4 else gains  # noqa: PLR2004 (a machine with other work has outliers)
    before, after = (sorted(one[place] for one in rounds)[len(rounds) // 2] for place in (0, 1))
    return Compared(1e9 * before, 1e9 * after, interval(middle))


def _timed(play: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    begun = clock()
    for _ in range(count):
        play()
    return max(clock() - begun, 1e-9) / count


def _substitute(calls: list[StepCall], prepared: list[Prepared], found: Region, function: Function) -> None:
    flow = found.flow
    made = {storage for place in found.places for storage in flow.writes(place)}
    lives = {flow.storage(slot) for slot in (*found.outputs, *found.inputs)}
    frees = tuple(one for place in found.places for one in calls[place].frees if one in lives or one not in made)
    for place in found.places:
        left = tuple(one for one in calls[place].allocates if one not in made)
        calls[place] = StepCall("", allocates=left, frees=frees if place == found.places[-1] else ())
        prepared[place] = Prepared(program=Program(_nothing, [], {}, []))
    args: list[Any] = [None] * len(found.inputs)
    fills: list[Fills] = [(args, number, slot, None) for number, slot in enumerate(found.inputs)]
    inputs = tuple((slot,) for slot in found.inputs)
    calls[found.anchor] = dataclasses.replace(calls[found.anchor], inputs=inputs, outputs=found.outputs)
    prepared[found.anchor] = Prepared(program=Program(conforming(found, function), args, {}, fills))


def _nothing() -> None:
    """In the place of a call that another one does."""
