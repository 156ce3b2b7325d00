"""The energy phase of a run: what the device draws without work and between kernels, then call after call.

Everything is measured between edges of the meter's counter (`edges`), in the order and for the time that `schedule`
plans, and evaluated by `evaluate`. Each window is reported at once; when all are done, or the budget is spent, every
call is evaluated again with all that is known by then.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.energy import pads, schedule
from kerneldb.replay.measure.energy.clock import Clock
from kerneldb.replay.measure.energy.edges import Beat, Edge, Power, Watch, edges_of, find_beat, power
from kerneldb.replay.measure.energy.evaluate import Common, Kernels, drift_of, evaluate, gap_of, repeatability
from kerneldb.replay.measure.energy.loads import Deeper, Load, Loads, Prepared, RestLoad
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.measure.energy.pads import Limits
from kerneldb.replay.measure.energy.schedule import Entry, Schedule, Turn
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, PowerReading, Window, together
from kerneldb.replay.wire.plan import Item

NS: Final = 1_000_000_000
REST_S: Final = 1.2
SETTLE_S: Final = 0.3
REFERENCE_SETTLE_S: Final = 0.4
REFERENCE_WINDOW_S: Final = 0.6
CAPPED_S: Final = 0.45
BUDGET: Final = "budget"
REFERENCES: Final = frozenset({"gap", "anchor", "flush", "upkeep", "pad"})
DEEPER: Final = 4.0
UNLIMITED: Final = Limits()
DRY: Final = "the device ran out of work {} times while it was measured"
UNCAPTURED: Final = ("waits", "no CUDA graph")


class Report(Protocol):
    """Where the phase tells what it does."""

    def begin(self, item: str | None, phase: str) -> None:
        """Work on `item` begins (None: on no item in particular)."""
        ...

    def energy(self, item: str, energy: CallEnergy) -> None:
        """The energy of a call, as known so far."""
        ...

    def energy_facts(self, facts: EnergyFacts) -> None:
        """What all calls share, as known so far."""
        ...

    def readings(self, readings: Sequence[PowerReading]) -> None:
        """Readings of the device."""
        ...


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
        recorded = sum(kernel.total_ns or 0 for kernel in self.item.kernels)
        return recorded or self.kernels.ns


class NotBusyError(Exception):
    """The device had no work for a moment, in a window that is to be one of full work."""


def idle_power(watch: Watch, beat: Beat) -> Power:
    """Power of the device with nothing queued. Raises MeterError."""
    edges, _ = edges_of(RestLoad(), watch, beat, settle_s=0.0, window_s=REST_S)
    return power(edges, beat)


class Phase:
    """Measures tasks with a meter; `facts` are those of earlier parts of the run, `limits` those of the board."""

    def __init__(
        self,
        loads: Loads,
        meter: Meter,
        clock: Clock,
        report: Report,
        facts: EnergyFacts,
        limits: Limits = UNLIMITED,
    ) -> None:
        self._loads = loads
        self._clock = clock
        self._report = report
        self._facts = facts
        self._limits = limits
        self._budget_s = 0.0
        self._watch = Watch(meter, clock)
        self._begun = clock.now()
        self._spent = facts.spent_s
        self._references: list[tuple[str, Load]] = []
        self._beat = Beat(1.0)

    def run(self, tasks: Sequence[Task], budget_s: float) -> None:
        """Measure them all, as far as the budget goes. Raises BrokenDeviceError."""
        try:
            self._begin(budget_s)
            left = self._measure(tasks, budget_s)
            self._learn_empty()
        except MeterError as error:
            self._facts = dataclasses.replace(self._facts, reason=str(error))
            left = str(error)
        finally:
            for _, load in self._references:
                load.close()
        self._finish(tasks, left)

    def _begin(self, budget_s: float) -> None:
        """Learn the counter's period, and what the device draws with a context and with empty kernels."""
        self._report.begin(None, "energy")
        self._budget_s = budget_s
        self._beat = find_beat(self._watch)
        seed = random.SystemRandom().getrandbits(31) if self._facts.seed is None else self._facts.seed
        self._facts = dataclasses.replace(
            self._facts, meter=self._watch.meter.name, reason=None, seed=seed, budget_s=budget_s
        )
        empty = self._loads.empty()
        self._references = [("gap", empty or RestLoad()), ("anchor", self._loads.anchor())]
        if empty is not None and self._facts.context_power_w is None:
            found = idle_power(self._watch, self._beat)
            self._facts = dataclasses.replace(self._facts, context_power_w=found.power_w, context_power_sd_w=found.sd_w)
        self._refer()

    def _refer(self) -> None:
        """Measure the references once more, and tell what all calls share."""
        for name, load in self._references:
            self._report.begin(None, "energy")
            window = self._window(load, name, REFERENCE_SETTLE_S, REFERENCE_WINDOW_S)
            if name == "gap":
                self._facts = dataclasses.replace(self._facts, gaps=(*self._facts.gaps, window))
            else:
                self._facts = dataclasses.replace(self._facts, anchors=(*self._facts.anchors, window))
        self._tell_facts()

    def _tell_facts(self) -> None:
        facts = dataclasses.replace(
            self._facts,
            period_ms=self._beat.seconds * 1000,
            period_sd_ms=self._beat.sd * 1000,
            jitter_ms=self._beat.jitter * 1000,
            spent_s=round(self._spent + self._clock.now() - self._begun, 3),
        )
        if facts.gaps:
            gap = gap_of(facts.gaps)
            slot = statistics.median(one.slot_ns for one in facts.gaps) or None
            between = (slot or 0.0) - facts.empty_ns if facts.empty_ns is not None else 0.0
            facts = dataclasses.replace(
                facts,
                gap_power_w=gap.power_w,
                gap_power_sd_w=gap.sd_w,
                gap_temperature_c=gap.temperature_c,
                gap_slope=gap.slope,
                gap_slot_ns=slot,
                gap_ns=between if between > 0 else None,
                drift=drift_of(facts.anchors, gap).sd,
            )
        self._facts = facts
        self._report.energy_facts(facts)

    def _measure(self, tasks: Sequence[Task], budget_s: float) -> str:
        """Take turns. Returns why a call without a window has none."""
        named = {task.item.id: task for task in tasks}
        entries = [Entry(task.item.id, task.weight, len(pads.free(task.windows))) for task in tasks]
        planned = schedule.schedule(entries, budget_s - self._spent, self._facts.seed or 0)
        for name in planned.dropped:
            named[name].reason = BUDGET
            self._report.energy(name, CallEnergy(reason=BUDGET, final=False))
        for number, turn in enumerate(planned.turns, 1):
            if self._left_s() < 0:
                return BUDGET
            task = named[turn.id]
            if task.reason is None and self._due(task, turn, planned, named):
                self._turn(task, turn)
                self._report.energy(turn.id, self._evaluated(task, tasks, final=False))
            if number % planned.anchor_every == 0 or number == len(planned.turns):
                self._refer()
        return BUDGET

    def _left_s(self) -> float:
        """Seconds left of the budget."""
        return self._budget_s - self._spent - (self._clock.now() - self._begun)

    def _due(self, task: Task, turn: Turn, planned: Schedule, named: Mapping[str, Task]) -> bool:
        """Whether there is time for this window: a further one of a call must leave it for calls that have none yet.

        The plan does not know of the windows that are measured again with pads.
        """
        if not task.windows or not pads.free(task.windows):
            return True
        none_yet = {name for name, other in named.items() if not other.windows and other.reason is None}
        waiting = {one.id: one.seconds for one in planned.turns if one.id in none_yet}
        return self._left_s() > turn.seconds + sum(waiting.values())

    def _turn(self, task: Task, turn: Turn) -> None:
        """Measure one window of a task, and again with pads where the power cap held it down."""
        for _ in range(1 + pads.MOST_PADS):
            known = len(task.windows)
            self._one(task, turn)
            if len(task.windows) == known or not task.windows[-1].slowed or not task.capture:
                return
            if self._left_s() < turn.seconds:
                return

    def _one(self, task: Task, turn: Turn) -> None:
        """Measure a window of a task; a failure is its reason."""
        self._report.begin(task.item.id, "energy")
        try:
            window = self._fed_window(task, turn)
        except NotBusyError as error:
            task.reason = str(error)
        except MeterError:
            raise
        except FAILURES as error:
            task.reason = first_line(error)
            self._loads.check()
            self._loads.release()
        else:
            task.windows.append(window)

    def _fed_window(self, task: Task, turn: Turn) -> Window:
        """A window of a task; with long pads where the host cannot enqueue calls as fast as the device runs them."""
        pad = pads.pad_ns(task.windows, self._facts.gaps[-1].power_w, self._full(), task.timed_ns)
        try:
            return self._made_window(task, turn, pad)
        except NotBusyError:
            return self._made_window(task, turn, max(pad, pads.patient_ns(task.timed_ns)))

    def _made_window(self, task: Task, turn: Turn, pad: float) -> Window:
        """Make the call ready, measure it and clear up."""
        prepared = self._prepared(task, pad)
        try:
            self._report.begin(task.item.id, "energy")
            return self._busy_window(task, prepared, turn)
        finally:
            prepared.close()

    def _prepared(self, task: Task, pad: float) -> Prepared:
        """The call's loads; single calls where it turns out that it cannot be captured."""
        if task.capture:
            try:
                return self._loads.call(task.item, task.attempt, task.kernels.ns, capture=True, pad_ns=pad)
            except FAILURES:
                self._loads.check()
                self._loads.release()
                task.capture = False
        return self._loads.call(task.item, task.attempt, task.kernels.ns, capture=False, pad_ns=pad)

    def _full(self) -> Limits:
        """The board's limits; its clock is that between kernels, as others may have set a lower one than it can."""
        seen = [one.sm_mhz for one in self._facts.gaps if one.sm_mhz is not None]
        return dataclasses.replace(self._limits, sm_mhz=max(seen)) if seen else self._limits

    def _busy_window(self, task: Task, prepared: Prepared, turn: Turn) -> Window:
        """A window of a task; a second try, with more work ahead, where the device ran out of it."""
        try:
            window = self._call_window(task, prepared, turn)
        except NotBusyError:
            window = self._call_window(task, prepared, turn, DEEPER)
        slowed = pads.slowed(window, self._full(), task.timed_ns)
        return dataclasses.replace(window, slowed=round(slowed, 4))

    def _call_window(self, task: Task, prepared: Prepared, turn: Turn, deeper: float = 1.0) -> Window:
        full = self._full()

        def enough(sample: Sample, seconds: float) -> bool:
            return task.capture and not prepared.pad_ns and seconds > CAPPED_S and pads.held_down(sample, full)

        settle_s = max(turn.settle_s, schedule.SETTLE_S) if prepared.pad_ns else turn.settle_s
        window = self._window(prepared.load, task.item.id, settle_s, turn.window_s, deeper=deeper, enough=enough)
        if prepared.pad_ns:
            pad = dataclasses.replace(self._pad(), slot_ns=prepared.pad_ns)
            window = dataclasses.replace(with_upkeep(window, pad, 1.0), pad_ns=prepared.pad_ns)
        if prepared.upkeep is not None:
            upkeep = self._window(prepared.upkeep, "upkeep", REFERENCE_SETTLE_S, turn.window_s / 2)
            window = with_upkeep(window, upkeep, prepared.upkeeps)
        if prepared.flushes:
            window = with_upkeep(window, self._flush(), prepared.flushes)
        if prepared.cold_bytes:
            window = dataclasses.replace(window, memory_nj=self._byte_nj() * prepared.cold_bytes)
        return window

    def _byte_nj(self) -> float:
        """What a byte costs that comes from memory, by reading the cache full; 0 where the device has no such load."""
        if not self._loads.flush_bytes:
            return 0.0
        flush = self._flush()
        return (flush.power_w - self._facts.gaps[-1].power_w) * flush.slot_ns / self._loads.flush_bytes

    def _flush(self) -> Window:
        """The window of reading the cache full, measured when first needed."""
        found = self._facts.flush or self._once(self._loads.flush(), "flush")
        self._facts = dataclasses.replace(self._facts, flush=found)
        return found

    def _pad(self) -> Window:
        """The window of waiting, measured when first needed."""
        found = self._facts.pad or self._once(self._loads.pad(), "pad")
        self._facts = dataclasses.replace(self._facts, pad=found)
        return found

    def _once(self, load: Load | None, stage: str) -> Window:
        found = self._window(load or RestLoad(), stage, SETTLE_S, 2 * REFERENCE_WINDOW_S)
        if load is not None:
            load.close()
        return found

    def _learn_empty(self) -> None:
        """How long an empty kernel takes: at the end, as a profiler leaves traces in its process."""
        if self._facts.empty_ns is None:
            self._report.begin(None, "energy")
            self._facts = dataclasses.replace(self._facts, empty_ns=self._loads.empty_ns())

    def _window(
        self,
        load: Load,
        stage: str,
        settle_s: float,
        window_s: float,
        *,
        deeper: float = 1.0,
        enough: Callable[[Sample, float], bool] | None = None,
    ) -> Window:
        """Keep a load going, and say what the device drew. Raises NotBusyError and MeterError."""
        load.begin()
        marks: list[object] = []
        dry: list[int] = []

        def at_edge(edge: Edge) -> None:
            del edge
            marks.append(load.mark())
            dry.append(load.dry)

        busy = Deeper(load, deeper)
        times = {"settle_s": settle_s, "window_s": window_s}
        edges, samples = edges_of(busy, self._watch, self._beat, **times, at_edge=at_edge, enough=enough)
        self._report.readings(self._readings(stage, edges, samples))
        if dry[-1] > dry[0] and stage not in REFERENCES:
            raise NotBusyError(DRY.format(dry[-1] - dry[0]))
        return self._made(load, power(edges, self._beat), load.per_call(marks[0], marks[-1]), samples)

    def _made(self, load: Load, found: Power, slot_s: float, samples: Sequence[Sample]) -> Window:
        return Window(
            at=round(self._clock.epoch() - found.seconds / 2, 3),
            seconds=round(found.seconds, 4),
            power_w=found.power_w,
            power_sd_w=found.sd_w,
            slot_ns=slot_s * NS,
            steps=found.steps,
            temperature_c=_over(samples, lambda one: one.temperature_c, statistics.fmean),
            sm_mhz=_over(samples, lambda one: one.sm_mhz, statistics.median),
            throttle=together(one.throttle for one in samples),
            trend=round(found.trend, 5),
            loop=load.kind,
        )

    def _readings(self, stage: str, edges: Sequence[Edge], samples: Sequence[Sample]) -> list[PowerReading]:
        ahead = self._clock.epoch() - self._clock.now()
        counted = [PowerReading(stage, round((edge.at + ahead) * NS), edge.energy_mj) for edge in edges]
        named = [one.name for one in dataclasses.fields(PowerReading) if one.name != "stage"]
        read = [PowerReading(stage, **{name: getattr(one, name) for name in named}) for one in samples]
        return sorted([*counted, *read], key=lambda one: one.epoch_ns)

    def _common(self, tasks: Sequence[Task]) -> Common:
        gap = gap_of(self._facts.gaps)
        drift = drift_of(self._facts.anchors, gap)
        return Common(gap, drift, *repeatability([task.windows for task in tasks], gap, drift))

    def _evaluated(self, task: Task, tasks: Sequence[Task], *, final: bool) -> CallEnergy:
        if not task.windows:
            return CallEnergy(reason=task.reason, final=final)
        return evaluate(task.windows, task.kernels, self._common(tasks), final=final)

    def _finish(self, tasks: Sequence[Task], left: str) -> None:
        """Evaluate every call with all that is known now."""
        if self._facts.gaps:
            found = self._common(tasks).repeatability
            self._facts = dataclasses.replace(self._facts, repeatability=found)
        self._tell_facts()
        for task in tasks:
            task.reason = task.reason or left
            known = bool(task.windows and self._facts.gaps)
            told = self._evaluated(task, tasks, final=True) if known else CallEnergy(reason=task.reason)
            self._report.energy(task.item.id, told)


def with_upkeep(window: Window, upkeep: Window, times: float) -> Window:
    """`window` with upkeep of `times` runs per call; two kinds of it become one of their mean power."""
    own = upkeep.slot_ns * times
    whole = window.upkeep_ns + own
    mean = (window.upkeep_w * window.upkeep_ns + upkeep.power_w * own) / whole if whole else 0.0
    sd_nj = (window.upkeep_sd_w * window.upkeep_ns, upkeep.power_sd_w * own)
    sd = (sd_nj[0] ** 2 + sd_nj[1] ** 2) ** 0.5 / whole if whole else 0.0
    return dataclasses.replace(window, upkeep_ns=whole, upkeep_w=mean, upkeep_sd_w=sd)


def _over(
    samples: Sequence[Sample], value: Callable[[Sample], float | None], mean: Callable[[list[float]], float]
) -> float | None:
    known = [found for found in map(value, samples) if found is not None]
    return mean(known) if known else None
