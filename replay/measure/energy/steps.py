"""Power from a counter that moves in steps: energy and time are taken between two of them.

A counter that moves every 100 ms, read at the two ends of a window, is wrong by up to one step at each end. Its steps,
found by reading it again and again, are moments at which energy *and* time are known. Power over a span that was kept
busy is

    P = (E_b - E_a) / (t_b - t_a)        a, b: the first and the last step inside the span

A step lies between the reading that still showed the old value and the one that showed the new: an interval of one
reading (4 ms for NVML on an H200), a standard deviation of its half over √3. Where the counter is periodic, steps of
the whole run give its period T so well that the n periods between two steps last n·T, which beats the two readings.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample

MILLI: Final = 1000.0
UNIFORM: Final = math.sqrt(3)
FEWEST_STEPS: Final = 3
PERIOD_STEPS: Final = 10
STUCK_S: Final = 2.0
SLICE_S: Final = 0.004
STEADY: Final = 0.1
COUNTABLE: Final = 0.2
SHARP: Final = 0.25
SLOW_S: Final = 0.02
SAMPLE_EVERY: Final = 4
AHEAD_S: Final = 0.25


class StuckCounterError(MeterError):
    """The energy counter does not move."""


class Clock:
    """The clock of this machine; tests have one of their own, which they put forward by hand."""

    def now(self) -> float:
        """Seconds that never run backwards, from an arbitrary start."""
        return time.monotonic()

    def epoch(self) -> float:
        """Seconds of wall-clock time, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Load:
    """Work that can be kept queued on a device, and timed on the device's own clock; this base class is idle.

    `kind` says how it runs, `dry` how often there was none left when there was to be more.
    """

    kind: str = "rest"
    dry: int = 0

    def begin(self) -> None:
        """Wait until the device is idle, and forget what was queued before."""

    def top_up(self, ahead_s: float) -> bool:
        """Make sure that there is work for the next `ahead_s` seconds; false where it has to be asked again."""
        del ahead_s
        return True

    def mark(self) -> Any:
        """The last run that has ended: a point in the device's time."""

    def per_call(self, first: Any, last: Any) -> float:
        """Seconds per call between two marks. Raises RuntimeError where they do not show it."""
        del first, last
        return 0.0

    def close(self) -> None:
        """Wait for the device and give its memory back."""


@dataclass(frozen=True, slots=True)
class CounterStep:
    """The counter moved to `energy_mj` at `at` ± `half_s` (seconds of the clock; the bounds are certain)."""

    at: float
    half_s: float
    energy_mj: float


@dataclass(frozen=True, slots=True)
class Power:
    """Mean power between two steps of the counter, `seconds` apart, with its standard deviation.

    `steps` counts the steps after the first; `trend` is how much higher the second half of them lies than the first,
    as a share.
    """

    power_w: float
    sd_w: float
    seconds: float
    steps: int
    trend: float = 0.0


class CounterPeriod:
    """The period of a counter, learned from the steps of a whole run.

    Steps are numbered as long as their number is sure, in stretches; a straight line through the times of each
    stretch, all with one slope, gives the period `seconds` with its standard deviation `sd`. `jitter` is how far
    single steps are off the line beyond what the readings explain.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = self.sd = self.jitter = seconds
        self._stretches: list[list[tuple[int, CounterStep]]] = []

    @property
    def slow(self) -> bool:
        """Whether the counter moves more slowly than it can be read."""
        return self.seconds >= SLOW_S

    @property
    def steady(self) -> bool:
        """Whether the counter is so periodic that its periods can be counted."""
        return self.slow and self.jitter < STEADY * self.seconds

    def learn(self, steps: Sequence[CounterStep]) -> None:
        """Take further steps, in time order. Those found by readings far apart are left out."""
        for step in steps:
            if step.half_s <= SHARP * self.seconds:
                self._number(step)
        long = [stretch for stretch in self._stretches if len(stretch) > 1]
        sums = [_moments(stretch) for stretch in long]
        spread = sum(one[0] for one in sums)
        free = sum(map(len, long)) - len(sums) - 1
        if free < 1 or not spread:
            return
        slope = sum(one[1] for one in sums) / spread
        left = max(sum(one[2] - 2 * slope * one[1] + slope**2 * one[0] for one in sums), 0.0) / free
        reading = statistics.fmean(step.half_s**2 for stretch in self._stretches for _, step in stretch) / 3
        self.seconds = slope
        self.sd = math.sqrt(max(left, reading) / spread)
        self.jitter = math.sqrt(max(left - reading, reading * math.sqrt(2 / free)))

    def between(self, first: CounterStep, last: CounterStep) -> int:
        """How many periods lie between two steps."""
        return max(1, round((last.at - first.at) / self.seconds))

    def _number(self, step: CounterStep) -> None:
        if self._stretches:
            number, last = self._stretches[-1][-1]
            away = (step.at - last.at) / self.seconds
            if abs(away - round(away)) < COUNTABLE and (away <= PERIOD_STEPS or away * self.sd < SHARP * self.seconds):
                if round(away):
                    self._stretches[-1].append((number + round(away), step))
                return
        self._stretches.append([(0, step)])


def _moments(stretch: Sequence[tuple[int, CounterStep]]) -> tuple[float, float, float]:
    """Sums of squares and products around the means of numbers and times."""
    number = statistics.fmean(one for one, _ in stretch)
    middle = statistics.fmean(step.at for _, step in stretch)
    pairs = [(one - number, step.at - middle) for one, step in stretch]
    return sum(x * x for x, _ in pairs), sum(x * y for x, y in pairs), sum(y * y for _, y in pairs)


class Watch:
    """Reads a counter, and notices its steps."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self.meter = meter
        self.clock = clock
        self.reading_s = 0.0
        self._last: tuple[float, float] | None = None

    def restart(self) -> None:
        """Forget the last reading: the next step is one between two readings to come."""
        self._last = None

    def poll(self, period: CounterPeriod | None = None) -> CounterStep | None:
        """Read once; None where the counter has not moved since. Raises MeterError, also where it ran backwards.

        A counter that moves faster than it is read (by its `period`) has its value of a moment ago: then each reading
        is a step.
        """
        begun = self.clock.now()
        energy = self.meter.energy_mj()
        ended = self.clock.now()
        self.reading_s = max(ended - begun, 0.8 * self.reading_s)
        middle, last = (begun + ended) / 2, self._last
        self._last = (middle, energy)
        if last is None or energy == last[1]:
            return None
        if energy < last[1]:
            raise MeterError(f"the energy counter ran backwards, from {last[1]:g} to {energy:g} mJ")
        if period is not None and not period.slow:
            return CounterStep(middle - period.seconds / 2, (period.seconds + ended - begun) / 2, energy)
        return CounterStep((last[0] + middle) / 2, (middle - last[0]) / 2, energy)

    def pause_s(self, period: CounterPeriod) -> float:
        """How long after a step to begin reading again: until shortly before the next one."""
        if not period.slow:
            return SLOW_S
        return period.seconds - (3 * self.reading_s + 3 * min(period.jitter, period.seconds / 4) + 0.002)


def power(steps: Sequence[CounterStep], period: CounterPeriod) -> Power:
    """Mean power between the first and the last step. Raises StuckCounterError with fewer than two."""
    if len(steps) < 2:  # noqa: PLR2004 (a span has two ends)
        raise StuckCounterError("the energy counter moved less than twice")
    seconds, span_sd = _span(steps[0], steps[-1], period)
    mean = (steps[-1].energy_mj - steps[0].energy_mj) / MILLI / seconds
    pairs = list(itertools.pairwise(steps))
    spans = (period.between(a, b) * period.seconds if period.steady else b.at - a.at for a, b in pairs)
    powers = [(b.energy_mj - a.energy_mj) / MILLI / span for (a, b), span in zip(pairs, spans, strict=True)]
    scatter = statistics.stdev(powers) / math.sqrt(len(powers)) if len(powers) > 1 else 0.0
    trend, doubt = _trend(powers, mean)
    sd = math.hypot(mean * span_sd / seconds, scatter, doubt)
    return Power(mean, sd, seconds, len(powers), trend)


def _span(first: CounterStep, last: CounterStep, period: CounterPeriod) -> tuple[float, float]:
    """Seconds between two steps, with their standard deviation: by the readings, or by the period where it is surer."""
    read, ends = last.at - first.at, math.hypot(first.half_s, last.half_s) / UNIFORM
    periods = period.between(first, last)
    counted = math.hypot(periods * period.sd, math.sqrt(2) * period.jitter)
    agree = abs(periods * period.seconds - read) <= 3 * math.hypot(ends, counted)
    if period.steady and counted < ends and agree:
        return periods * period.seconds, counted
    return read, ends


def _trend(powers: Sequence[float], mean: float) -> tuple[float, float]:
    """By what share the second half of a window is above the first, and watts of doubt where that is significant."""
    half = len(powers) // 2
    if half < 2 or not mean:  # noqa: PLR2004 (the spread of a half)
        return 0.0, 0.0
    early, late = powers[:half], powers[-half:]
    apart = statistics.fmean(late) - statistics.fmean(early)
    chance = math.sqrt((statistics.variance(early) + statistics.variance(late)) / half)
    return apart / mean, abs(apart) / 2 / UNIFORM if abs(apart) > 2.0 * chance else 0.0


def find_period(watch: Watch) -> CounterPeriod:
    """Learn the period from ten steps, or those of 20 ms, reading without pause. Raises StuckCounterError."""
    watch.restart()
    found: list[CounterStep] = []
    begun = last = watch.clock.now()
    while len(found) < PERIOD_STEPS or watch.clock.now() - begun < SLOW_S:
        step = watch.poll()
        if step is not None:
            found.append(step)
            last = watch.clock.now()
        elif watch.clock.now() - last > STUCK_S:
            message = f"the energy counter of {watch.meter.name} does not move: {STUCK_S:g} s without a change"
            raise StuckCounterError(message)
    period = CounterPeriod(statistics.median(b.at - a.at for a, b in itertools.pairwise(found[1:])))
    period.learn(found)
    return period


def steps_of(
    load: Load,
    watch: Watch,
    period: CounterPeriod,
    *,
    settle_s: float,
    window_s: float,
    at_step: Callable[[], None] | None = None,
    enough: Callable[[Sample, float], bool] | None = None,
) -> tuple[list[CounterStep], list[Sample]]:
    """Keep `load` queued, and collect the steps of `window_s` seconds, at least three, after `settle_s` seconds.

    `at_step` is called at each. Samples are taken right after steps, where they do not blur the next one; `enough` may
    end the window at one of them, so many seconds after its begin. Raises StuckCounterError and MeterError.
    """
    clock = watch.clock
    _keep(load, clock, clock.now() + settle_s)
    watch.restart()
    steps: list[CounterStep] = []
    samples: list[Sample] = []
    begun = last = clock.now()
    end = begun + window_s
    while True:
        load.top_up(_ahead(clock, end if len(steps) >= FEWEST_STEPS - 1 else None))
        step = watch.poll(period)
        if step is None:
            if clock.now() - last > max(STUCK_S, 20 * period.seconds):
                raise StuckCounterError(f"the energy counter of {watch.meter.name} does not move any more")
            continue
        last = clock.now()
        steps.append(step)
        if at_step is not None:
            at_step()
        if len(steps) >= FEWEST_STEPS and last + period.seconds / 2 >= end:
            break
        if len(samples) <= (len(steps) - 1) // SAMPLE_EVERY:
            samples.append(watch.meter.sample())
            if enough is not None and enough(samples[-1], last - begun):
                end = clock.now()
        _keep(load, clock, step.at + watch.pause_s(period), end if len(steps) >= FEWEST_STEPS - 1 else None)
    period.learn(steps)
    return steps, samples


def _ahead(clock: Clock, end: float | None) -> float:
    """Seconds to keep queued: less towards the end, where there is one, so that little is left to wait for."""
    left = AHEAD_S if end is None else max(end - clock.now(), 0.0)
    return min(AHEAD_S, left + 0.06)


def _keep(load: Load, clock: Clock, until: float, end: float | None = None) -> None:
    while (left := until - clock.now()) > 0:
        if load.top_up(_ahead(clock, end)):
            clock.sleep(min(SLICE_S, max(until - clock.now(), 0.0), left))
