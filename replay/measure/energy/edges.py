"""Power from a counter that moves in steps: energy and time are taken between two of its edges.

A counter that moves every 100 ms, read at the two ends of a window, is wrong by up to one step at each end. Its edges,
found by reading it again and again, are moments at which energy *and* time are known. Power over a span that was kept
busy is

    P = (E_b - E_a) / (t_b - t_a)        a, b: the first and the last edge inside the span

An edge lies between the reading that still showed the old value and the one that showed the new: an interval of one
reading (4 ms for NVML on an H200), a standard deviation of its half over √3. Where the counter keeps a beat, edges of
the whole run tell its period T so well that the n steps between two edges last n·T, which beats the two readings.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kerneldb.replay.measure.energy.clock import Clock
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample

MILLI: Final = 1000.0
UNIFORM: Final = math.sqrt(3)
FEWEST_EDGES: Final = 3
PERIOD_EDGES: Final = 10
STUCK_S: Final = 2.0
STUCK_PERIODS: Final = 20
SLICE_S: Final = 0.004
STEADY: Final = 0.1
COUNTABLE: Final = 0.2
SHARP: Final = 0.25
SLOW_S: Final = 0.02
TREND_SIGMAS: Final = 2.0
SAMPLE_EVERY: Final = 4
AHEAD_S: Final = 0.25
DRAIN_S: Final = 0.06


class StuckCounterError(MeterError):
    """The energy counter does not move."""


class Busy(Protocol):
    """Work that can be kept queued on a device."""

    def top_up(self, ahead_s: float) -> bool:
        """Make sure that there is work for the next `ahead_s` seconds; false where it has to be asked again."""
        ...


class Rest:
    """No work at all."""

    def top_up(self, ahead_s: float) -> bool:
        """Nothing to enqueue."""
        del ahead_s
        return True


@dataclass(frozen=True, slots=True)
class Edge:
    """The counter moved to `energy_mj` at `at` ± `half_s` (seconds of the clock; the bounds are certain)."""

    at: float
    half_s: float
    energy_mj: float


@dataclass(frozen=True, slots=True)
class Power:
    """Mean power between two edges, `seconds` apart, with its standard deviation.

    `steps` counts the edges behind the first; `trend` is how much higher the second half of them lies than the first,
    as a share.
    """

    power_w: float
    sd_w: float
    seconds: float
    steps: int
    trend: float = 0.0


class Watch:
    """Reads a counter, and notices its edges."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self.meter = meter
        self.clock = clock
        self.reading_s = 0.0
        self._last: tuple[float, float] | None = None

    def restart(self) -> None:
        """Forget the last reading: the next edge is one between two readings to come."""
        self._last = None

    def poll(self, fresh_s: float = 0.0) -> Edge | None:
        """Read once; None where the counter has not moved since. Raises MeterError, also where it ran backwards.

        A counter that moves faster than it is read (every `fresh_s` seconds) has its value of a moment ago: then each
        reading is an edge.
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
            message = f"the energy counter ran backwards, from {last[1]:g} to {energy:g} mJ"
            raise MeterError(message)
        if fresh_s:
            return Edge(middle - fresh_s / 2, (fresh_s + ended - begun) / 2, energy)
        return Edge((last[0] + middle) / 2, (middle - last[0]) / 2, energy)


class Beat:
    """The period of a counter, learned from the edges of a whole run.

    Edges are numbered as long as their number is sure, in stretches; a straight line through the times of each
    stretch, all with one slope, gives the period `seconds` with its standard deviation `sd`. `jitter` is how far
    single edges are off the line beyond what the readings explain.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sd = seconds
        self.jitter = seconds
        self._stretches: list[list[tuple[int, Edge]]] = []

    @property
    def slow(self) -> bool:
        """Whether the counter moves more slowly than it can be read."""
        return self.seconds >= SLOW_S

    @property
    def steady(self) -> bool:
        """Whether the counter keeps a beat that steps can be counted by."""
        return self.slow and self.jitter < STEADY * self.seconds

    def learn(self, edges: Sequence[Edge]) -> None:
        """Take further edges, in time order. Those found by readings far apart are left out."""
        for edge in edges:
            if edge.half_s <= SHARP * self.seconds:
                self._number(edge)
        self._fit()

    def steps(self, first: Edge, last: Edge) -> int:
        """How many steps lie between two edges."""
        return max(1, round((last.at - first.at) / self.seconds))

    def _number(self, edge: Edge) -> None:
        if self._stretches and self._stretches[-1]:
            number, last = self._stretches[-1][-1]
            away = (edge.at - last.at) / self.seconds
            if abs(away - round(away)) < COUNTABLE and (away <= PERIOD_EDGES or away * self.sd < SHARP * self.seconds):
                if round(away):
                    self._stretches[-1].append((number + round(away), edge))
                return
        self._stretches.append([(0, edge)])

    def _fit(self) -> None:
        sums = [_moments(stretch) for stretch in self._stretches if len(stretch) > 1]
        spread = sum(one[0] for one in sums)
        points = sum(len(stretch) for stretch in self._stretches if len(stretch) > 1)
        free = points - len(sums) - 1
        if free < 1 or not spread:
            return
        slope = sum(one[1] for one in sums) / spread
        left = max(sum(one[2] - 2 * slope * one[1] + slope**2 * one[0] for one in sums), 0.0) / free
        reading = statistics.fmean(edge.half_s**2 for stretch in self._stretches for _, edge in stretch) / 3
        self.seconds = slope
        self.sd = math.sqrt(max(left, reading) / spread)
        self.jitter = math.sqrt(max(left - reading, reading * math.sqrt(2 / free)))


def _moments(stretch: Sequence[tuple[int, Edge]]) -> tuple[float, float, float]:
    """Sums of squares and products around the means of numbers and times."""
    number = statistics.fmean(one for one, _ in stretch)
    time = statistics.fmean(edge.at for _, edge in stretch)
    pairs = [(one - number, edge.at - time) for one, edge in stretch]
    return sum(x * x for x, _ in pairs), sum(x * y for x, y in pairs), sum(y * y for _, y in pairs)


def power(edges: Sequence[Edge], beat: Beat) -> Power:
    """Mean power between the first and the last edge. Raises StuckCounterError with fewer than two."""
    if len(edges) < 2:  # noqa: PLR2004 (a span has two ends)
        message = "the energy counter moved less than twice"
        raise StuckCounterError(message)
    seconds, span_sd = _span(edges[0], edges[-1], beat)
    mean = (edges[-1].energy_mj - edges[0].energy_mj) / MILLI / seconds
    steps = _step_powers(edges, beat)
    scatter = statistics.stdev(steps) / math.sqrt(len(steps)) if len(steps) > 1 else 0.0
    trend, doubt = _trend(steps, mean)
    sd = math.hypot(mean * span_sd / seconds, scatter, doubt)
    return Power(mean, sd, seconds, len(steps), trend)


def _span(first: Edge, last: Edge, beat: Beat) -> tuple[float, float]:
    """Seconds between two edges, with their standard deviation: by the readings, or by the beat where it is surer."""
    read, ends = last.at - first.at, math.hypot(first.half_s, last.half_s) / UNIFORM
    steps = beat.steps(first, last)
    counted = math.hypot(steps * beat.sd, math.sqrt(2) * beat.jitter)
    agree = abs(steps * beat.seconds - read) <= 3 * math.hypot(ends, counted)
    if beat.steady and counted < ends and agree:
        return steps * beat.seconds, counted
    return read, ends


def _step_powers(edges: Sequence[Edge], beat: Beat) -> list[float]:
    """Power of each step (several in one where an edge was missed), in watts."""
    pairs = list(itertools.pairwise(edges))
    spans = (beat.steps(a, b) * beat.seconds if beat.steady else b.at - a.at for a, b in pairs)
    return [(b.energy_mj - a.energy_mj) / MILLI / span for (a, b), span in zip(pairs, spans, strict=True)]


def _trend(steps: Sequence[float], mean: float) -> tuple[float, float]:
    """How far the halves of a window are apart as a share, and the watts of doubt where that is no chance."""
    half = len(steps) // 2
    if half < 2 or not mean:  # noqa: PLR2004 (the spread of a half)
        return 0.0, 0.0
    early, late = steps[:half], steps[-half:]
    apart = statistics.fmean(late) - statistics.fmean(early)
    chance = math.sqrt((statistics.variance(early) + statistics.variance(late)) / half)
    return apart / mean, abs(apart) / 2 / UNIFORM if abs(apart) > TREND_SIGMAS * chance else 0.0


def find_beat(watch: Watch, edges: int = PERIOD_EDGES) -> Beat:
    """Learn the period from `edges` edges, reading without pause. Raises StuckCounterError."""
    watch.restart()
    found: list[Edge] = []
    begun = last = watch.clock.now()
    while len(found) < edges or watch.clock.now() - begun < SLOW_S:
        edge = watch.poll()
        if edge is not None:
            found.append(edge)
            last = watch.clock.now()
        elif watch.clock.now() - last > STUCK_S:
            message = f"the energy counter of {watch.meter.name} does not move: {STUCK_S:g} s without a change"
            raise StuckCounterError(message)
    gaps = [b.at - a.at for a, b in itertools.pairwise(found[1:] or found)]
    beat = Beat(statistics.median(gaps))
    beat.learn(found)
    return beat


def edges_of(
    busy: Busy,
    watch: Watch,
    beat: Beat,
    *,
    settle_s: float,
    window_s: float,
    at_edge: Callable[[Edge], None] | None = None,
    enough: Callable[[Sample, float], bool] | None = None,
) -> tuple[list[Edge], list[Sample]]:
    """Keep `busy` queued, and collect the edges of `window_s` seconds, at least three, after `settle_s` seconds.

    `at_edge` is called at each. Samples are taken right behind edges, where they cost no sharpness; `enough` may end
    the window at one of them, so many seconds after its begin. Raises StuckCounterError and MeterError.
    """
    clock = watch.clock
    _keep(busy, clock, clock.now() + settle_s)
    watch.restart()
    edges: list[Edge] = []
    samples: list[Sample] = []
    begun = last = clock.now()
    end = begun + window_s
    while True:
        busy.top_up(_ahead(clock, end if len(edges) >= FEWEST_EDGES - 1 else None))
        edge = watch.poll(0.0 if beat.slow else beat.seconds)
        if edge is None:
            if clock.now() - last > max(STUCK_S, STUCK_PERIODS * beat.seconds):
                message = f"the energy counter of {watch.meter.name} does not move any more"
                raise StuckCounterError(message)
            continue
        last = clock.now()
        edges.append(edge)
        if at_edge is not None:
            at_edge(edge)
        if len(edges) >= FEWEST_EDGES and last + beat.seconds / 2 >= end:
            break
        if len(samples) <= (len(edges) - 1) // SAMPLE_EVERY:
            samples.append(watch.meter.sample())
            if enough is not None and enough(samples[-1], last - begun):
                end = clock.now()
        pause = beat.seconds - _lead(watch, beat) if beat.slow else SLOW_S
        _keep(busy, clock, edge.at + pause, end if len(edges) >= FEWEST_EDGES - 1 else None)
    beat.learn(edges)
    return edges, samples


def power_between_edges(
    meter: Meter,
    busy: Busy,
    clock: Clock,
    *,
    window_s: float,
    settle_s: float = 0.4,
    beat: Beat | None = None,
) -> Power:
    """Mean power of the device while `busy` is kept queued for about `window_s` seconds.

    With `beat` (of `find_beat`) the counter's period need not be learned again. Raises StuckCounterError and
    MeterError.
    """
    watch = Watch(meter, clock)
    known = beat or find_beat(watch)
    edges, _ = edges_of(busy, watch, known, settle_s=settle_s, window_s=window_s)
    return power(edges, known)


def _ahead(clock: Clock, end: float | None) -> float:
    """Seconds to keep queued: less towards the end, where there is one, so that little is left to wait for."""
    left = AHEAD_S if end is None else max(end - clock.now(), 0.0)
    return min(AHEAD_S, left + DRAIN_S)


def _lead(watch: Watch, beat: Beat) -> float:
    """How long before the next edge to begin reading."""
    return 3 * watch.reading_s + 3 * min(beat.jitter, beat.seconds / 4) + 0.002


def _keep(busy: Busy, clock: Clock, until: float, end: float | None = None) -> None:
    while (left := until - clock.now()) > 0:
        if busy.top_up(_ahead(clock, end)):
            clock.sleep(min(SLICE_S, max(until - clock.now(), 0.0), left))
