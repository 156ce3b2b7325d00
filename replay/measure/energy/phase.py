"""The energy phase of a run: what the device draws without work and between kernels, then call after call.

Everything is measured between steps of the meter's counter (`steps`), in the order and for the time that `schedule`
plans, and evaluated by `evaluate`. Each window is reported at once; when all are done, or the budget is spent, every
call is evaluated again with all that is known by then.

`schedule` says in what order, and for how long, the calls of a run are measured. Calls that make up 95 % of the
recorded time get three windows, in three rounds; the others get a short one at the end. Each round has an order of its
own, drawn from a seed, so that warming up falls on no call in particular. Where that does not fit into the budget, the
windows of the first group shrink to half, then their rounds to two and one, then all calls get a short window, and what
still does not fit goes without, those with least time first.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.recordings import Reading
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.energy import steps
from kerneldb.replay.measure.energy.evaluate import (
    MOST_PADDED,
    Common,
    Kernels,
    Limits,
    common_of,
    evaluate,
    free,
    held_down,
    over,
    padding_ns,
    slowed,
)
from kerneldb.replay.measure.energy.loads import Deeper, Loads, Prepared
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.measure.energy.steps import Clock, CounterPeriod, CounterStep, Load, Power, Watch
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window, together
from kerneldb.replay.wire.messages import Begin, Energy, Readings, Send, SharedEnergy
from kerneldb.replay.wire.plan import Item

NS: Final = 1_000_000_000
REST_S: Final = 1.2
REFERENCE_SETTLE_S: Final = 0.4
REFERENCE_WINDOW_S: Final = 0.6
CAPPED_S: Final = 0.45
BUDGET: Final = "budget"
REFERENCES: Final = frozenset({"gap", "anchor", "flush", "upkeep", "pad"})
DRY: Final = "the device ran out of work {} times while it was measured"
UNCAPTURED: Final = ("waits", "no CUDA graph")
TOP_SHARE: Final = 0.95
SETTLE_S: Final = 0.4
WINDOW_S: Final = 1.5
ANCHOR_EVERY: Final = 15
REFERENCE_S: Final = 2.2
BEGIN_S: Final = 8.0


@dataclass(slots=True)
class Task:
    """A call to measure: its item, which of the route's calls it was, its GPU time, and the windows it has already.

    `capture` is false where it cannot run in a CUDA graph. `loop_ns` is the time of a call in a short loop of such.
    """

    item: Item
    attempt: int
    kernels: Kernels
    capture: bool = True
    windows: list[Window] = field(default_factory=list)
    reason: str | None = None
    loop_ns: float = 0.0

    @property
    def timed_ns(self) -> float:
        """How long the call takes alone."""
        return max(self.loop_ns, self.kernels.ns)

    @property
    def weight(self) -> float:
        """Recorded GPU time of its kernels over the selection, in nanoseconds."""
        return sum(kernel.total_ns or 0 for kernel in self.item.kernels) or self.kernels.ns


class NotBusyError(Exception):
    """The device had no work for a moment, in a window that is to be one of full work."""


def idle_power(watch: Watch, period: CounterPeriod) -> Power:
    """Power of the device with nothing queued. Raises MeterError."""
    found, _ = steps.steps_of(Load(), watch, period, settle_s=0.0, window_s=REST_S)
    return steps.power(found, period)


class Phase:
    """Measures tasks with a meter; `facts` are those of earlier parts of the run, `limits` those of the board."""

    def __init__(
        self, loads: Loads, meter: Meter, clock: Clock, send: Send, facts: EnergyFacts, limits: Limits | None = None
    ) -> None:
        self._loads = loads
        self._clock = clock
        self._send = send
        self._facts = facts
        self._limits = limits or Limits()
        self._budget_s = 0.0
        self._watch = Watch(meter, clock)
        self._begun = clock.now()
        self._spent = facts.spent_s
        self._references: list[tuple[str, Load]] = []
        self._period = CounterPeriod(1.0)

    def run(self, tasks: Sequence[Task], budget_s: float) -> None:
        """Measure them all, as far as the budget goes. Raises BrokenDeviceError."""
        self._budget_s = budget_s
        left = BUDGET
        try:
            self._begin()
            self._measure(tasks)
            if self._facts.empty_ns is None:  # at the end, as a profiler leaves traces in its process
                self._send(Begin(None, "energy"))
                self._note(empty_ns=self._loads.empty_ns())
        except MeterError as error:
            left = str(error)
            self._note(reason=left)
        finally:
            for _, load in self._references:
                load.close()
        if self._facts.gaps:
            self._note(repeatability=self._common(tasks).repeatability)
        self._report_facts()
        for task in tasks:
            task.reason = task.reason or left
            self._send(Energy(task.item.id, self._evaluated(task, tasks, final=True)))

    def _note(self, **known: Any) -> None:
        """Facts that are known now."""
        self._facts = dataclasses.replace(self._facts, **known)

    def _begin(self) -> None:
        """Learn the counter's period, and what the device draws with a context and with empty kernels."""
        self._send(Begin(None, "energy"))
        self._period = steps.find_period(self._watch)
        seed = random.SystemRandom().getrandbits(31) if self._facts.seed is None else self._facts.seed
        self._note(meter=self._watch.meter.name, reason=None, seed=seed, budget_s=self._budget_s)
        empty = self._loads.empty()
        self._references = [("gap", empty or Load()), ("anchor", self._loads.anchor())]
        if empty is not None and self._facts.context_power_w is None:
            found = idle_power(self._watch, self._period)
            self._note(context_power_w=found.power_w, context_power_sd_w=found.sd_w)
        self._refer()

    def _refer(self) -> None:
        """Measure the references once more, and report what all calls share."""
        for name, load in self._references:
            self._send(Begin(None, "energy"))
            window = self._window(load, PlannedWindow(name, REFERENCE_SETTLE_S, REFERENCE_WINDOW_S))
            self._note(**{f"{name}s": (*getattr(self._facts, f"{name}s"), window)})
        self._report_facts()

    def _report_facts(self) -> None:
        self._note(
            period_ms=self._period.seconds * 1000,
            period_sd_ms=self._period.sd * 1000,
            jitter_ms=self._period.jitter * 1000,
            spent_s=round(self._spent + self._clock.now() - self._begun, 3),
        )
        if self._facts.gaps:
            common = self._common(())
            slot = statistics.median(one.slot_ns for one in self._facts.gaps)
            between = slot - self._facts.empty_ns if self._facts.empty_ns is not None else 0.0
            self._note(
                launch_loop_power_w=common.launch_loop.power_w,
                launch_loop_power_sd_w=common.launch_loop.sd_w,
                gap_temperature_c=common.launch_loop.temperature_c,
                gap_slope=common.launch_loop.slope,
                gap_slot_ns=slot or None,
                gap_ns=between if between > 0 else None,
                drift=common.drift.sd,
            )
        self._send(SharedEnergy(self._facts))

    def _measure(self, tasks: Sequence[Task]) -> None:
        """Measure the planned windows, as long as the budget lasts."""
        named = {task.item.id: task for task in tasks}
        entries = [Entry(task.item.id, task.weight, len(free(task.windows))) for task in tasks]
        planned = schedule(entries, self._budget_s - self._spent, self._facts.seed or 0)
        for name in planned.dropped:
            named[name].reason = BUDGET
            self._send(Energy(name, CallEnergy(reason=BUDGET, final=False)))
        for number, due in enumerate(planned.windows, 1):
            if self._left_s() < 0:
                return
            task = named[due.id]
            if task.reason is None and self._has_time(task, due, planned, named):
                self._measure_task(task, due)
                self._send(Energy(due.id, self._evaluated(task, tasks, final=False)))
            if number % planned.anchor_every == 0 or number == len(planned.windows):
                self._refer()

    def _left_s(self) -> float:
        """Seconds left of the budget."""
        return self._budget_s - self._spent - (self._clock.now() - self._begun)

    def _has_time(self, task: Task, due: PlannedWindow, planned: Schedule, named: Mapping[str, Task]) -> bool:
        """Whether there is time for this window: a further one of a call must leave it for calls that have none yet.

        The plan does not know of the windows that are measured again with idle padding.
        """
        if not free(task.windows):
            return True
        others = [(one, named[one.id]) for one in planned.windows]
        waiting = {one.id: one.seconds for one, other in others if not other.windows and other.reason is None}
        return self._left_s() > due.seconds + sum(waiting.values())

    def _measure_task(self, task: Task, due: PlannedWindow) -> None:
        """Measure one window of a task, and again with idle padding where the power cap held it down.

        A failure is the task's reason.
        """
        try:
            for _ in range(1 + MOST_PADDED):
                self._send(Begin(task.item.id, "energy"))
                task.windows.append(self._fed_window(task, due))
                if not task.windows[-1].slowed or not task.capture or self._left_s() < due.seconds:
                    return
        except NotBusyError as error:
            task.reason = str(error)
        except MeterError:
            raise
        except FAILURES as error:
            task.reason = first_line(error)
            self._loads.check()
            self._loads.release()

    def _fed_window(self, task: Task, due: PlannedWindow) -> Window:
        """A window of a task; with long padding where the host cannot enqueue calls as fast as the device runs them."""
        pause_ns = padding_ns(task.windows, self._facts.gaps[-1].power_w, self._full(), task.timed_ns)
        try:
            return self._made_window(task, due, pause_ns)
        except NotBusyError:
            return self._made_window(task, due, max(pause_ns, 4 * task.timed_ns, 200_000.0))

    def _made_window(self, task: Task, due: PlannedWindow, padding_ns: float) -> Window:
        """Make the call ready, measure it and clear up; once more, with more work ahead, where the device ran out."""
        with closing(self._prepared(task, padding_ns)) as prepared:
            self._send(Begin(task.item.id, "energy"))
            try:
                window = self._call_window(task, prepared, due)
            except NotBusyError:
                window = self._call_window(task, prepared, due, 4.0)
        share = slowed(window, self._full(), task.timed_ns)
        return dataclasses.replace(window, slowed=round(share, 4))

    def _prepared(self, task: Task, padding_ns: float) -> Prepared:
        """The call's loads; single calls where it windows out that it cannot be captured."""
        if task.capture:
            try:
                return self._loads.call(task.item, task.attempt, task.kernels.ns, capture=True, padding_ns=padding_ns)
            except FAILURES:
                self._loads.check()
                self._loads.release()
                task.capture = False
        return self._loads.call(task.item, task.attempt, task.kernels.ns, capture=False, padding_ns=padding_ns)

    def _full(self) -> Limits:
        """The board's limits; its clock is that between kernels, as others may have set a lower one than it can."""
        seen = over((one.sm_mhz for one in self._facts.gaps), max)
        return self._limits if seen is None else dataclasses.replace(self._limits, sm_mhz=seen)

    def _call_window(self, task: Task, prepared: Prepared, due: PlannedWindow, deeper: float = 1.0) -> Window:
        if prepared.padding_ns:
            due = dataclasses.replace(due, settle_s=max(due.settle_s, SETTLE_S))
        limits = self._full() if task.capture and not prepared.padding_ns else None
        window = self._window(prepared.load, due, deeper, limits)
        if prepared.padding_ns:
            waiting = dataclasses.replace(self._alone("pad", self._loads.padding), slot_ns=prepared.padding_ns)
            window = dataclasses.replace(with_upkeep(window, waiting, 1.0), pad_ns=prepared.padding_ns)
        if prepared.upkeep is not None:
            upkeep = self._window(prepared.upkeep, PlannedWindow("upkeep", REFERENCE_SETTLE_S, due.window_s / 2))
            window = with_upkeep(window, upkeep, prepared.upkeeps)
        if prepared.flushes:
            window = with_upkeep(window, self._alone("flush", self._loads.flush), prepared.flushes)
        if prepared.cold_bytes and self._loads.flush_bytes:
            flush = self._alone("flush", self._loads.flush)
            byte_nj = (flush.power_w - self._facts.gaps[-1].power_w) * flush.slot_ns / self._loads.flush_bytes
            window = dataclasses.replace(window, memory_nj=byte_nj * prepared.cold_bytes)
        return window

    def _alone(self, stage: str, make: Callable[[], Load | None]) -> Window:
        """The window of reading the cache full (`flush`) or of waiting (`pad`), measured when first needed."""
        known: Window | None = getattr(self._facts, stage)
        if known is None:
            with closing(make() or Load()) as load:
                known = self._window(load, PlannedWindow(stage, 0.3, 2 * REFERENCE_WINDOW_S))
            self._note(**{stage: known})
        return known

    def _window(self, load: Load, due: PlannedWindow, deeper: float = 1.0, limits: Limits | None = None) -> Window:
        """Keep a load going, and say what the device drew. Raises NotBusyError and MeterError.

        Where `limits` are given, the window ends early when the power cap holds the load down.
        """
        load.begin()
        queued, times = Deeper(load, deeper), {"settle_s": due.settle_s, "window_s": due.window_s}
        marks: list[tuple[Any, int]] = []

        def at_step() -> None:
            marks.append((load.mark(), load.dry))

        def enough(sample: Sample, seconds: float) -> bool:
            return limits is not None and seconds > CAPPED_S and held_down(sample, limits)

        found, samples = steps.steps_of(queued, self._watch, self._period, **times, at_step=at_step, enough=enough)
        self._send(Readings(tuple(self._readings(due.id, found, samples))))
        (first, dry), (last, dry_since) = marks[0], marks[-1]
        if dry_since > dry and due.id not in REFERENCES:
            raise NotBusyError(DRY.format(dry_since - dry))
        return self._made(load, steps.power(found, self._period), load.per_call(first, last), samples)

    def _made(self, load: Load, found: Power, slot_s: float, samples: Sequence[Sample]) -> Window:
        return Window(
            at=round(self._clock.epoch() - found.seconds / 2, 3),
            seconds=round(found.seconds, 4),
            power_w=found.power_w,
            power_sd_w=found.sd_w,
            slot_ns=slot_s * NS,
            steps=found.steps,
            temperature_c=over((one.temperature_c for one in samples), statistics.fmean),
            sm_mhz=over((one.sm_mhz for one in samples), statistics.median),
            throttle=together(one.throttle for one in samples),
            trend=round(found.trend, 5),
            loop=load.kind,
        )

    def _readings(self, stage: str, found: Sequence[CounterStep], samples: Sequence[Sample]) -> list[Reading]:
        ahead = self._clock.epoch() - self._clock.now()
        counted = [Reading(stage, round((step.at + ahead) * NS), energy_mj=step.energy_mj) for step in found]
        read = [one.reading(stage) for one in samples]
        return sorted([*counted, *read], key=lambda one: one.epoch_ns)

    def _common(self, tasks: Sequence[Task]) -> Common:
        return common_of(self._facts.gaps, self._facts.anchors, [task.windows for task in tasks])

    def _evaluated(self, task: Task, tasks: Sequence[Task], *, final: bool) -> CallEnergy:
        if not task.windows or not self._facts.gaps:
            return CallEnergy(reason=task.reason, final=final)
        return evaluate(task.windows, task.kernels, self._common(tasks), final=final)


def with_upkeep(window: Window, upkeep: Window, times: float) -> Window:
    """`window` with upkeep of `times` runs per call; two kinds of it become one of their mean power."""
    own = upkeep.slot_ns * times
    whole = window.upkeep_ns + own
    mean = (window.upkeep_w * window.upkeep_ns + upkeep.power_w * own) / whole if whole else 0.0
    sd_nj = (window.upkeep_sd_w * window.upkeep_ns, upkeep.power_sd_w * own)
    sd = (sd_nj[0] ** 2 + sd_nj[1] ** 2) ** 0.5 / whole if whole else 0.0
    return dataclasses.replace(window, upkeep_ns=whole, upkeep_w=mean, upkeep_sd_w=sd)


@dataclass(frozen=True, slots=True)
class Tier:
    """How the first group is measured: so many windows, each after `settle_s` seconds."""

    rounds: int
    settle_s: float
    window_s: float

    @property
    def seconds(self) -> float:
        """What one window costs, with its part in references."""
        return self.settle_s + self.window_s + 0.2 + REFERENCE_S / ANCHOR_EVERY


TAIL: Final = Tier(rounds=1, settle_s=0.15, window_s=0.45)
TIERS: Final = (
    *(Tier(rounds=3, settle_s=SETTLE_S, window_s=WINDOW_S * scale) for scale in (1.0, 0.8, 0.65, 0.5)),
    *(Tier(rounds, SETTLE_S, WINDOW_S / 2) for rounds in (2, 1)),
    TAIL,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A call to measure: `weight` is its recorded time, `done` the windows it has already."""

    id: str
    weight: float
    done: int = 0


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """One window to measure, of the call or reference `id`. It costs `seconds`, with its part in references."""

    id: str
    settle_s: float
    window_s: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Windows in order, and the calls for which there is no time."""

    windows: tuple[PlannedWindow, ...]
    dropped: tuple[str, ...]

    @property
    def anchor_every(self) -> int:
        """After how many windows the references are measured again: 15, or fewer for six of them in a short run."""
        return min(ANCHOR_EVERY, max(3, math.ceil(len(self.windows) / 6)))


def schedule(entries: Sequence[Entry], budget_s: float, seed: int) -> Schedule:
    """Plan the windows of `entries` within `budget_s` seconds."""
    ranked = sorted(entries, key=lambda one: (-one.weight, one.id))
    whole = sum(one.weight for one in ranked)
    before = itertools.accumulate((one.weight for one in ranked), initial=0.0)
    top = frozenset(one.id for one, earlier in zip(ranked, before, strict=False) if earlier < TOP_SHARE * whole)
    tier, kept = _fit(ranked, top, budget_s - BEGIN_S)
    drawn = random.Random(seed)  # noqa: S311 (an order, no secret)
    windows: list[PlannedWindow] = []
    for number in range(tier.rounds):
        windows += _shuffled([one for one in kept if one.id in top and one.done <= number], tier, drawn)
    windows += _shuffled([one for one in kept if one.id not in top and not one.done], TAIL, drawn)
    names = {one.id for one in kept}
    return Schedule(tuple(windows), tuple(one.id for one in ranked if one.id not in names))


def _fit(ranked: Sequence[Entry], top: frozenset[str], budget_s: float) -> tuple[Tier, list[Entry]]:
    """The first tier that leaves time for every call; else the last one, and the calls that fit."""
    for tier in TIERS:
        if sum(_seconds(one, top, tier) for one in ranked) <= budget_s:
            return tier, list(ranked)
    kept: list[Entry] = []
    left = budget_s
    for one in ranked:
        seconds = _seconds(one, top, TAIL)
        if seconds <= left or one.done:
            kept.append(one)
            left -= seconds
    return TAIL, kept


def _seconds(one: Entry, top: frozenset[str], tier: Tier) -> float:
    """What a call costs."""
    if one.id in top:
        return max(tier.rounds - one.done, 0) * tier.seconds
    return 0.0 if one.done else TAIL.seconds


def _shuffled(entries: list[Entry], tier: Tier, drawn: random.Random) -> list[PlannedWindow]:
    """A window for each, in an order that is drawn."""
    drawn.shuffle(entries)
    return [PlannedWindow(one.id, tier.settle_s, tier.window_s, tier.seconds) for one in entries]
