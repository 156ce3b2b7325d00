"""Measures an iteration whole, without a profiler: wall time by the device's clock, power by the meter's counter.

The iterations run without a pause, the queue of the device kept a little ahead. A thread beside them reads the counter
only around its steps (`measure.energy.steps`), so that the host goes on at its own speed: an eager model is
bound by it. Power is taken between the first and the last step of the time in which the loop ran; energy per iteration
is power times wall time per iteration.

`measure_power` says what the device draws around the work: at rest without a context, with one, and while it runs empty
kernels. Results are rows of `measurements` as bundle.json holds them: a value with its 95 % interval, or a reason.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import itertools
import math
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.recordings import Measurement
from kerneldb.replay.measure.energy.evaluate import student
from kerneldb.replay.measure.energy.meter import Background, Meter, MeterError, Sample
from kerneldb.replay.measure.energy.steps import (
    Clock,
    CounterPeriod,
    CounterStep,
    Load,
    Power,
    Watch,
    find_period,
    power,
    steps_of,
)
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.recording.workloads import Work

REPETITIONS: Final = 3
SETTLE_S: Final = 0.6
AHEAD_S: Final = 0.2
STEADY: Final = 0.02
SETTLES: Final = 4
"""Ranks settle at most so often: until two stretches in a row differ by less than this share on all of them."""
SAMPLE_EVERY: Final = 2
NS: Final = 1_000_000_000
Z95: Final = 1.96
WALL: Final = "device clock over a loop of iterations without a pause, no profiler"
ENERGY: Final = "power between steps of the energy counter while the loop ran, times wall time"
PROFILER: Final = "profiler"
UNEQUAL: Final = "the ranks show other collectives: how long these waited is not known"
WINDOW_S: Final = 2.0
EMPTY_KERNELS: Final = 1024
METHODS: Final = {
    "idle": (0.0, "energy counter, no context on the device"),
    "context": (1.0, "energy counter, a context and nothing queued"),
    "gap": (0.5, "energy counter, a loop of empty kernels"),
}
"""Seconds to settle, and how it is measured."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """One loop: nanoseconds per iteration, and mean power, or why there is none."""

    wall_ns: float
    iterations: int
    seconds: float
    at: float
    power: Power | None = None
    reason: str | None = None
    sm_mhz: float | None = None

    def mj(self, power_w: float) -> float:
        """Energy per iteration at this power."""
        return power_w * self.wall_ns / 1e6


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


def interval(values: Sequence[float], own_sd: Sequence[float] = ()) -> Interval:
    """Mean of repetitions; the interval is that of their scatter (Student's t), or of their own errors if wider."""
    mean, n = statistics.fmean(values), len(values)
    scatter = student(n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else 0.0
    own = Z95 * math.sqrt(sum(sd**2 for sd in own_sd)) / n
    half = max(scatter, own)
    return Interval(mean, mean - half, mean + half)


class StepWatch(Background):
    """Collects the steps of a counter in a thread, from `with` to the end of its block, with a sample at every other.

    Behind an step it rests until shortly before the next.
    """

    def __init__(self, meter: Meter, period: CounterPeriod) -> None:
        super().__init__("kerneldb-steps")
        self.steps: list[CounterStep] = []
        self.samples: list[Sample] = []
        self._clock = Clock()
        self._watch = Watch(meter, self._clock)
        self._period = period

    def _read(self) -> None:
        step = self._watch.poll(self._period)
        if step is None:
            time.sleep(0.0005)
            return
        self.steps.append(step)
        if len(self.steps) % SAMPLE_EVERY == 1:
            self.samples.append(self._watch.meter.sample())
        self._stop.wait(max(step.at + self._watch.pause_s(self._period) - self._clock.now(), 0.0))


class Pace:
    """Runs iterations and times them: on a CPU, where they have ended when they return."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def step(self) -> None:
        """Run one iteration; on a GPU enqueue it, when there is room in the queue."""
        self.work()

    def mark(self) -> Any:
        """A point in the device's time, behind what is enqueued."""
        return time.perf_counter()

    def between(self, first: Any, last: Any) -> float:
        """Seconds between two marks, after waiting for the last."""
        return float(last - first)


class GpuPace(Pace):
    """Iterations on a GPU, up to `AHEAD_S` of them enqueued."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        begun = self.mark()
        work()
        self._ahead = max(2, math.ceil(AHEAD_S / max(self.between(begun, self.mark()), 1e-6)))
        self._pending: collections.deque[Any] = collections.deque()

    def step(self) -> None:
        """Enqueue one, and wait for an old one where there are many."""
        super().step()
        self._pending.append(self.mark())
        if len(self._pending) > self._ahead:
            self._pending.popleft().synchronize()

    def mark(self) -> Any:
        """An event."""
        import torch

        event = torch.cuda.Event(enable_timing=True, blocking=True)
        event.record()
        return event

    def between(self, first: Any, last: Any) -> float:
        """By the device's clock."""
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000


def run(
    work: Work, settings: Settings, meter: Meter | None, period: CounterPeriod | None, ranks: Ranks = ALONE
) -> tuple[list[Repetition], list[Sample]]:
    """Measure the repetitions of one workload and mode, with the samples that were taken meanwhile.

    The processes of a job run each repetition together, from one start, and as many iterations.
    """
    loop = _Loop(_pace(work, settings), settings, ranks)
    if meter is None or period is None:
        return [loop.run() for _ in range(REPETITIONS)], []
    samples: list[Sample] = []
    return [_measured(loop, meter, period, samples) for _ in range(REPETITIONS)], samples


def load(work: Work, settings: Settings, ranks: Ranks = ALONE) -> None:
    """Run a workload for the seconds under load that the settings ask for; all processes of a job equally often."""
    if settings.load > 0:
        _Loop(_pace(work, settings), settings, ranks).keep(settings.load)


def _pace(work: Work, settings: Settings) -> Pace:
    return GpuPace(work) if settings.on_gpu else Pace(work)


def _measured(loop: _Loop, meter: Meter, period: CounterPeriod, samples: list[Sample]) -> Repetition:
    # the periods of iterations and of the counter beat against each other: every repetition begins at another phase
    time.sleep(random.uniform(0, 0.1))  # noqa: S311 (no secret)
    with StepWatch(meter, period) as watch:
        found = loop.run()
    samples += watch.samples
    inside = [step for step in watch.steps if found.at <= step.at <= found.at + found.seconds]
    period.learn(inside)
    clocks = [one.sm_mhz for one in watch.samples if one.sm_mhz is not None]
    found = dataclasses.replace(found, sm_mhz=statistics.median(clocks) if clocks else None)
    if watch.failure is not None:
        return dataclasses.replace(found, reason=watch.failure)
    try:
        return dataclasses.replace(found, power=power(inside, period))
    except MeterError as error:
        return dataclasses.replace(found, reason=f"{error}: measure longer (--seconds)")


class _Loop:
    """Iterations for the repetition's time, after some to settle.

    A process alone goes on until its time is over. Processes that wait for each other inside of an iteration must run
    equally many: they agree on a number, from the time of those before.
    """

    def __init__(self, pace: Pace, settings: Settings, ranks: Ranks) -> None:
        self._pace = pace
        self._wanted = settings.seconds / REPETITIONS
        self._ranks = ranks

    def run(self) -> Repetition:
        """One repetition. Its `at` is when it began, by the monotonic clock."""
        settle = min(SETTLE_S, self._wanted)
        if self._ranks.many:
            return self._timed(self._agreed(self._wanted, self._settled(settle)))
        for _ in _within(settle):
            self._pace.step()
        return self._timed(_within(self._wanted))

    def _settled(self, seconds: float) -> Repetition:
        """The last of some stretches, when all ranks are steady.

        Memory that several streams use comes back late: its pool grows while the host runs ahead, and a block that is
        allocated anew stops the device of this rank, for which the others wait.
        """
        before = self._timed(range(1))
        for _ in range(SETTLES):
            now = self._timed(self._agreed(seconds, before))
            if all(self._ranks.gather(abs(now.wall_ns / before.wall_ns - 1) < STEADY)):
                return now
            before = now
        return before

    def keep(self, seconds: float) -> None:
        """Iterations for about so long."""
        first = self._timed(range(1))
        self._timed(self._agreed(seconds, first))

    def _agreed(self, seconds: float, before: Repetition) -> Iterable[int]:
        """As many turns as take so long on the slowest rank."""
        slowest_s = max(*self._ranks.gather(before.wall_ns / NS), 1e-6)
        return range(math.ceil(seconds / slowest_s))

    def _timed(self, turns: Iterable[int]) -> Repetition:
        """Iterations in a row, one a turn."""
        self._ranks.wait()
        first, at, count = self._pace.mark(), time.monotonic(), 0
        for _ in turns:
            self._pace.step()
            count += 1
        wall = self._pace.between(first, self._pace.mark())
        return Repetition(wall / count * NS, count, time.monotonic() - at, at)


def _within(seconds: float) -> Iterator[int]:
    """Turns that begin within the time, from the first one on; one at least."""
    until = time.monotonic() + seconds
    yield 0
    yield from itertools.takewhile(lambda _: time.monotonic() < until, itertools.count(1))


def learn_period(meter: Meter) -> CounterPeriod:
    """The period of the meter's counter. Raises MeterError where it does not move."""
    return find_period(Watch(meter, Clock()))


def row(quantity: str, value: float | Interval | None, unit: str | None = None, **more: Any) -> Measurement:
    """One row; `value` may have its interval with it."""
    known = dataclasses.asdict(value) if isinstance(value, Interval) else {"value": value}
    return Measurement(quantity, unit=unit, **known, **more)


def of_repetitions(repetitions: Sequence[Repetition], *, on_gpu: bool, no_meter: str | None) -> list[Measurement]:
    """Wall time, energy and power, of each repetition and over all."""
    wall = WALL if on_gpu else "host clock over a loop of iterations, no profiler"
    rows = []
    for number, one in enumerate(repetitions, 1):
        how = {"reason": no_meter or one.reason} if one.power is None else {"method": ENERGY}
        same = {"n": one.iterations, "repetition": number}
        rows.append(row("wall_ns", one.wall_ns, "ns", method=wall, **same))
        rows.append(row("energy_mj", None if one.power is None else one.mj(one.power.power_w), "mJ", **same, **how))
    n = sum(one.iterations for one in repetitions)
    rows.append(row("wall_ns", interval([one.wall_ns for one in repetitions]), "ns", n=n, method=wall))
    rows += _energy(repetitions, n, no_meter)
    rows.append(row("iterations", n))
    rows.append(row("seconds", sum(one.seconds for one in repetitions), "s"))
    clocks = [one.sm_mhz for one in repetitions if one.sm_mhz is not None]
    return [*rows, row("sm_mhz", interval(clocks), "MHz")] if clocks else rows


def _energy(repetitions: Sequence[Repetition], n: int, no_meter: str | None) -> list[Measurement]:
    """Energy and power over all repetitions that have them."""
    measured = [(one, one.power) for one in repetitions if one.power is not None]
    if not measured:
        reason = no_meter or next((one.reason for one in repetitions if one.reason), None)
        return [row("energy_mj", None, "mJ", reason=reason), row("power_w", None, "W", reason=reason)]
    own = [one.mj(drawn.sd_w) for one, drawn in measured]
    energy = interval([one.mj(drawn.power_w) for one, drawn in measured], own)
    power = interval([drawn.power_w for _, drawn in measured], [drawn.sd_w for _, drawn in measured])
    return [row("energy_mj", energy, "mJ", n=n, method=ENERGY), row("power_w", power, "W", n=n, method=ENERGY)]


def of_trace(busy_ns: float | None, launches: float | None, iterations: int) -> list[Measurement]:
    """What the traced iterations say: time in which the device ran anything, and launches, per iteration."""
    count = row("launches", launches or 0, n=iterations, method=PROFILER)
    if not launches:
        return [row("busy_ns", None, "ns", reason="nothing ran on a GPU"), count]
    how = {"reason": UNEQUAL} if busy_ns is None else {"method": PROFILER}
    return [row("busy_ns", busy_ns, "ns", n=iterations, **how), count]


def stamped(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows with the time of now."""
    now = datetime.datetime.now(tz=datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
    return [dataclasses.replace(one, measured_at=now) for one in rows]


def measure_power(name: str, meter: Meter, period: CounterPeriod, load: Load) -> tuple[Measurement, list[Sample]]:
    """A row `idle_power_w`, `context_power_w` or `launch_loop_power_w` with its samples, or why it failed."""
    quantity, window, (settle, method) = f"{name}_power_w", min(WINDOW_S, 100 * period.seconds), METHODS[name]
    try:
        steps, samples = steps_of(load, Watch(meter, Clock()), period, settle_s=min(settle, window), window_s=window)
        drawn = power(steps, period)
    except MeterError as error:
        return row(quantity, None, "W", reason=str(error)), []
    half = Z95 * drawn.sd_w
    found = Interval(drawn.power_w, drawn.power_w - half, drawn.power_w + half)
    return row(quantity, found, "W", n=drawn.steps, method=method), samples


def context(device: str) -> Load:
    """Make the device current, with a context on it and nothing queued."""
    import torch

    torch.cuda.set_device(device)
    torch.ones(1, device=device).add_(1)
    torch.cuda.synchronize()
    return Load()


def empty_kernels() -> Any:
    """A load of empty kernels, one behind the other, in a CUDA graph."""
    import torch

    from kerneldb.replay.measure.energy.loads import graph_of

    return graph_of(functools.partial(torch.cuda._sleep, 0), EMPTY_KERNELS)
