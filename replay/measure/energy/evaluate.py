"""The energy of a call from the windows in which it ran again and again.

A device whose queue stays full runs a call in slots: its kernels, then the gap to the next. With P the mean power of
the device in such a loop, t_slot the time from one call to the next and G the launch-loop power (that of a queue full
of empty kernels),

    dynamic = (P - G) * t_slot             what the call adds to a device that is only kept going

The gap inside the slot drops out, as its own power is G: no busy share is divided by, so that short kernels are as
unbiased as long ones, if less certain. Upkeep of the inputs (u) that ran in the slots, measured alone at U and t_u, is
taken off in the same way:

    dynamic = (P - G) * t_slot - (U - G) * t_u

and what a few kilobytes cost that come from memory in a call and from the cache in the loop is added, by the energy
per byte of reading the cache full.

The energy of a call is that, and the board's baseline for as long as its kernels run (t_kernel: CUPTI, cold or mixed
caches, as in `replay_ns`):

    energy = dynamic + G0 * t_kernel

with one G0 for the whole run. Sums over a model then close exactly, whatever the launches: with n_i calls of each kind
and a wall time T,

    sum(n_i * dynamic_i) + G0 * T  =  sum(n_i * energy_i) + G0 * (T - sum(n_i * t_kernel_i))

G depends on the temperature of the device (leakage); it is measured again and again, a straight line is drawn through
it where it rises for sure, and P of a window is compared with G at the window's temperature. G0 is G at the mean
temperature of its windows.

Drift: one matrix product, the anchor, is measured again and again. Where its above-gap energy moves by more than its
own errors, windows are divided by its course, smoothed and interpolated between anchors; what is left of its scatter is
an error that all windows share.

Windows in which the power cap slowed a loop down do not count where there are others (see idle padding below);
those without idle padding show what the call costs, and how long it takes, at the lower clock. Where there are no
others, what they say may be too low by as much as they were slowed down, and the interval is so much wider.

Error bars are 95 % intervals: Student's t for what differs from window to window (steps of the counter,
repetitions pooled over all calls of the run: Smyth 2004, doi:10.2202/1544-6115.1027), and in quadrature what does not
(launch-loop power, drift, kernel time).

Idle padding: pauses between calls that keep a loop below the power cap of the board.

A matrix product alone in a loop can draw more than the board may. It then runs at a lower clock and voltage, at which
it costs less energy than in a model, where kernels of less power run in between. A loop that was held down is measured
again with idle padding: kernels that only wait, so long that the mean power stays clearly below the cap. Padding is
upkeep: its power is measured alone and taken off. The loop that was held down counts too: it shows what the call costs,
and how long it takes, at its lower clock, and a model that is itself capped runs in between.

Idle padding also helps a call that takes the host longer to enqueue than the device to run: the device waits after
each, and does not run out of work.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kerneldb.replay.measure.energy.meter import Sample
from kerneldb.replay.wire.energy import CallEnergy, Window, together

NJ_PER_MJ: Final = 1e6
Z95: Final = 1.959964
PRIOR_FREEDOM: Final = 4
REPEATABILITY: Final = 0.003
SLOPE_POINTS: Final = 3
SLOPE_KELVIN: Final = 4.0
SURE: Final = 2.0
DRIFT_POINTS: Final = 4
BUSY_ENOUGH: Final = 0.5
CAP: Final = "power cap"
FULL_CLOCK: Final = 0.97
FULL_SPEED: Final = 1.03
NEAR_CAP: Final = 0.75
MOST_PADDED: Final = 2


@dataclass(frozen=True, slots=True)
class LaunchLoop:
    """Power of the launch loop: `power_w` ± `sd_w` at `temperature_c`, and its rise per °C ± `slope_sd`."""

    power_w: float
    sd_w: float
    temperature_c: float | None = None
    slope: float = 0.0
    slope_sd: float = 0.0

    def at(self, temperature_c: float | None) -> float:
        """Watts at a temperature (None: unknown)."""
        return self.power_w + self.slope * self._warmer(temperature_c)

    def sd_at(self, temperature_c: float | None) -> float:
        """Standard deviation at a temperature (None: unknown)."""
        return math.hypot(self.sd_w, self.slope_sd * self._warmer(temperature_c))

    def _warmer(self, temperature_c: float | None) -> float:
        """By how many °C this is warmer than its windows were; 0 where either is unknown."""
        return 0.0 if temperature_c is None or self.temperature_c is None else temperature_c - self.temperature_c


@dataclass(frozen=True, slots=True)
class Drift:
    """The course of the anchor: factors at times, and the share of scatter around it."""

    times: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()
    sd: float = 0.0

    def factor(self, at: float) -> float:
        """By how much windows at this time read too high (1: not at all)."""
        if not self.times:
            return 1.0
        if at <= self.times[0]:
            return self.factors[0]
        for (t0, f0), (t1, f1) in itertools.pairwise(zip(self.times, self.factors, strict=True)):
            if at <= t1:
                return f0 + (f1 - f0) * (at - t0) / max(t1 - t0, 1e-9)
        return self.factors[-1]


@dataclass(frozen=True, slots=True)
class Common:
    """What all calls of a run share. `repeatability` is the scatter of a call's windows beyond their own errors.

    `freedom` is by how many repetitions it is known.
    """

    launch_loop: LaunchLoop
    drift: Drift = Drift()
    repeatability: float = REPEATABILITY
    freedom: int = 0


@dataclass(frozen=True, slots=True)
class Kernels:
    """GPU time of a call's kernels in nanoseconds, ± `sd_ns`; `slot_ns` from one to the next in a short loop of it."""

    ns: float
    sd_ns: float = 0.0
    slot_ns: float | None = None


def launch_loop_of(windows: Sequence[Window]) -> LaunchLoop:
    """The launch-loop power from its windows (at least one)."""
    weights = [1 / max(one.power_sd_w, 1e-3) ** 2 for one in windows]
    mean = _mean([one.power_w for one in windows], weights)
    away = [one.power_w - mean for one in windows]
    own = math.sqrt(1 / sum(weights))
    warmth = [one.temperature_c for one in windows if one.temperature_c is not None]
    if len(warmth) < len(windows):
        return LaunchLoop(mean, _spread(away, own))
    middle = _mean(warmth, weights)
    points = list(zip((one - middle for one in warmth), away, weights, strict=True))
    apart = len(windows) >= SLOPE_POINTS and max(warmth) - min(warmth) >= SLOPE_KELVIN
    slope, slope_sd = _slope(points) if apart else (0.0, 0.0)
    return LaunchLoop(mean, _spread([y - slope * x for x, y, _ in points], own), middle, slope, slope_sd)


def _slope(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Watts per °C ± its standard deviation, where they rise for sure, else 0; of (°C, W, weight) around the means."""
    across = sum(w * x * x for x, _, w in points)
    slope = sum(w * x * y for x, y, w in points) / across
    left = sum(w * (y - slope * x) ** 2 for x, y, w in points) / (len(points) - 2)
    sd = math.sqrt(max(left, 1.0) / across)
    return (slope, sd) if slope > SURE * sd else (0.0, 0.0)


def _spread(left: Sequence[float], own: float) -> float:
    """Standard deviation of a mean: by its parts' own errors, or by how they scatter where that is more."""
    return max(own, statistics.stdev(left) / math.sqrt(len(left))) if len(left) > 1 else own


def drift_of(anchors: Sequence[Window], launch_loop: LaunchLoop) -> Drift:
    """The course of the anchor; none where its scatter is no more than its own errors explain."""
    if len(anchors) < 2:  # noqa: PLR2004 (a course has two ends)
        return Drift()
    values = [above(one, launch_loop) for one in anchors]
    mean = statistics.fmean(values)
    relative = [value / mean - 1 for value in values]
    scatter = statistics.stdev(relative)
    own = math.sqrt(statistics.fmean((_window_sd(one) / mean) ** 2 for one in anchors))
    away = [b - (a + c) / 2 for a, b, c in zip(relative, relative[1:], relative[2:], strict=False)]
    left = math.sqrt(statistics.fmean(one**2 for one in away) / 1.5) if away else math.inf
    if len(anchors) < DRIFT_POINTS or scatter < SURE * own or left > scatter:
        return Drift(sd=math.sqrt(max(scatter**2 - own**2, 0.0)))
    factors = tuple(1 + one for one in _smooth(relative))
    return Drift(tuple(one.at for one in anchors), factors, math.sqrt(max(left**2 - own**2, 0.0)))


def _smooth(values: Sequence[float]) -> list[float]:
    """Values smoothed over their neighbours, so that straight courses stay as they are, to the ends."""
    inner = [(a + 2 * b + c) / 4 for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    (a, b, c), (x, y, z) = values[:3], values[-3:]
    return [(5 * a + 2 * b - c) / 6, *inner, (5 * z + 2 * y - x) / 6]


def above(window: Window, launch_loop: LaunchLoop, drift: Drift = Drift()) -> float:
    """The energy above the gap of one call in one window, in nanojoules."""
    base = launch_loop.at(window.temperature_c)
    slot = (window.power_w - base) * window.slot_ns - (window.upkeep_w - base) * window.upkeep_ns
    return (slot + window.memory_nj) / drift.factor(window.at)


def _window_sd(window: Window) -> float:
    """Its standard deviation by what differs from window to window, in nanojoules."""
    return math.hypot(
        window.power_sd_w * window.slot_ns, window.power_w * window.slot_sd_ns, window.upkeep_sd_w * window.upkeep_ns
    )


def repeatability(calls: Iterable[Sequence[Window]], launch_loop: LaunchLoop, drift: Drift) -> tuple[float, int]:
    """How far windows of one call scatter beyond their own errors, as a share of P·t, pooled; and the freedom of it."""
    squares, freedom = 0.0, 0
    for windows in map(usable, calls):
        if len(windows) < 2:  # noqa: PLR2004 (one window repeats nothing)
            continue
        values = [above(one, launch_loop, drift) for one in windows]
        own = statistics.fmean(_window_sd(one) ** 2 for one in windows)
        whole = statistics.fmean(one.power_w * one.slot_ns for one in windows)
        squares += (len(windows) - 1) * (statistics.variance(values) - own) / whole**2
        freedom += len(windows) - 1
    return (math.sqrt(max(squares / freedom, 0.0)), freedom) if freedom else (REPEATABILITY, 0)


def common_of(gaps: Sequence[Window], anchors: Sequence[Window], calls: Iterable[Sequence[Window]] = ()) -> Common:
    """What all calls share, by the windows of the launch loop (at least one), of the anchor, and of calls."""
    launch_loop = launch_loop_of(gaps)
    drift = drift_of(anchors, launch_loop)
    return Common(launch_loop, drift, *repeatability(calls, launch_loop, drift))


def evaluate(windows: Sequence[Window], kernels: Kernels, common: Common, *, final: bool = True) -> CallEnergy:
    """The energy of a call from its windows (at least one)."""
    given, windows = windows, usable(windows)
    slot = statistics.fmean(one.slot_ns - one.upkeep_ns for one in windows)
    share = kernels.ns / slot
    padded = ", padded" if any(one.pad_ns for one in windows) else ""
    capped = ", held down by the power cap" if any(one.slowed for one in windows) else ""
    upkeep = ", upkeep of inputs taken off" if any(one.upkeep_ns > one.pad_ns for one in windows) else ""
    memory = ", small cold inputs added" if any(one.memory_nj for one in windows) else ""
    kind = {"graph": "CUDA-graph loop", "eager": "loop of single calls"}.get(windows[0].loop, windows[0].loop)
    found = CallEnergy(
        **_capped(given, kernels, common),
        power_w=statistics.fmean(one.power_w for one in windows),
        busy_share=round(share, 4),
        seconds=round(sum(one.seconds for one in windows), 3),
        method=f"{kind} between counter steps{padded}{capped}{upkeep}{memory}",
        sm_mhz=over((one.sm_mhz for one in windows), statistics.median),
        throttle=together(one.throttle for one in windows),
        final=final,
        windows=tuple(given),
    )
    if share < BUSY_ENOUGH and windows[0].loop != "graph":
        return replace(found, reason=f"the device was not kept busy: kernels ran for {share:.0%} of the time")
    mean, half = _above(windows, common)
    base = common.launch_loop
    shared = base.sd_at(over((one.temperature_c for one in windows), statistics.fmean))
    sure = math.hypot(shared * slot - base.sd_w * kernels.ns, base.power_w * kernels.sd_ns)
    energy = mean + base.power_w * kernels.ns
    dynamic = _interval("dynamic", mean, math.hypot(half, Z95 * shared * slot))
    return replace(found, **dynamic, **_interval("energy", energy, math.hypot(half, Z95 * sure)))


def over(values: Iterable[float | None], mean: Callable[[list[float]], float]) -> float | None:
    """The `mean` of those values that are known; None where there are none."""
    known = [one for one in values if one is not None]
    return mean(known) if known else None


def _capped(windows: Sequence[Window], kernels: Kernels, common: Common) -> dict[str, Any]:
    """What the windows that the cap held down say of a call, where there are others at full clock."""
    held = [one for one in windows if one.slowed and not one.pad_ns and one.sm_mhz is not None]
    if not held or not free(windows) or not kernels.slot_ns:
        return {}
    slot_ns = statistics.fmean(one.slot_ns - one.upkeep_ns for one in held)
    above_nj = statistics.fmean(above(one, common.launch_loop, common.drift) for one in held)
    return {
        "capped_mhz": statistics.fmean(one.sm_mhz or 0.0 for one in held),
        "capped_stretch": round(max(slot_ns / kernels.slot_ns, 1.0), 4),
        "capped_dynamic_mj": above_nj / NJ_PER_MJ,
    }


def _above(windows: Sequence[Window], common: Common) -> tuple[float, float]:
    """Mean over the windows, and half of its 95 % interval without the error of launch-loop power, in nanojoules."""
    values = [above(one, common.launch_loop, common.drift) for one in windows]
    whole = statistics.fmean(one.power_w * one.slot_ns for one in windows)
    variances = [_window_sd(one) ** 2 + (common.repeatability * whole) ** 2 for one in windows]
    weights = [1 / max(one, 1e-12) for one in variances]
    mean = _mean(values, weights)
    own_freedom = len(windows) - 1
    prior = min(common.freedom, PRIOR_FREEDOM) if common.freedom else PRIOR_FREEDOM
    scatter = sum(w * (value - mean) ** 2 for w, value in zip(weights, values, strict=True))
    sd = math.sqrt((prior + scatter) / (prior + own_freedom) / sum(weights))
    slowed = statistics.fmean(one.slowed for one in windows)
    return mean, math.hypot(student(prior + own_freedom) * sd, Z95 * common.drift.sd * mean) + slowed * mean


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by the expansion around the normal one (Abramowitz & Stegun 26.7.5)."""
    z, n = Z95, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n**power for power, term in enumerate(terms, 1))


def _interval(name: str, mean_nj: float, half_nj: float) -> dict[str, Any]:
    """The fields of a quantity: its mean in millijoules and the ends of its interval."""
    ends = {"low_mj": mean_nj - half_nj, "mj": mean_nj, "high_mj": mean_nj + half_nj}
    return {f"{name}_{end}": value / NJ_PER_MJ for end, value in ends.items()}


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the board may draw, and its highest clock; None where unknown."""

    power_w: float | None = None
    sm_mhz: float | None = None


def held_down(sample: Sample, limits: Limits) -> bool:
    """Whether the power cap holds the clock down at the moment of a sample."""
    return CAP in (sample.throttle or "") and _clock_lost(sample.sm_mhz, limits) > 1 / FULL_CLOCK - 1


def slowed(window: Window, limits: Limits, timed_ns: float) -> float:
    """By what share the power cap made a loop slower than its call is alone (`timed_ns`), or its clock; 0: not at all.

    The reason alone does not count: it stays for a while after the cap did, and also where the clock hardly moves. How
    long a padded call takes does not count either: what its slot is beyond the padding is not known as well.
    """
    if CAP not in (window.throttle or ""):
        return 0.0
    clock = _clock_lost(window.sm_mhz, limits)
    if window.pad_ns:
        return clock if clock > 1 / FULL_CLOCK - 1 else 0.0
    if limits.power_w is not None and window.power_w < NEAR_CAP * limits.power_w:
        return 0.0
    slot = (window.slot_ns - window.upkeep_ns) / timed_ns - 1
    return max(clock, slot) if clock > 1 / FULL_CLOCK - 1 or slot > FULL_SPEED - 1 else 0.0


def usable(windows: Sequence[Window]) -> list[Window]:
    """The windows that no power cap held down; all of them where there is no such one."""
    return free(windows) or list(windows)


def free(windows: Sequence[Window]) -> list[Window]:
    """The windows that no power cap held down."""
    return [one for one in windows if not one.slowed]


def padding_ns(windows: Sequence[Window], launch_loop_w: float, limits: Limits, timed_ns: float) -> float:
    """How long to wait after each call in the next window, by the windows so far; 0: not at all.

    As long as the last one did where that was not held down. Else so long that the mean power comes to 80 % of the
    limit (of what the capped loop drew, where that is unknown), but no less than the call takes, nor than half as much
    again as the last padding. At full clock a call is taken to cost more than in the capped loop by as much as it was
    slowed down there: energy goes with the square of the voltage, which follows the clock in part.
    """
    if not windows:
        return 0.0
    last = windows[-1]
    if not last.slowed:
        return last.pad_ns
    above = (last.power_w - launch_loop_w) * last.slot_ns - (last.upkeep_w - launch_loop_w) * last.upkeep_ns
    stretch = 1.0 if last.pad_ns else max((last.slot_ns - last.upkeep_ns) / timed_ns, 1.0)
    left_w = 0.8 * (limits.power_w or last.power_w) - launch_loop_w
    needed = above * stretch / max(left_w, 1.0) - timed_ns
    return max(needed, timed_ns, 1.5 * last.pad_ns)


def _clock_lost(sm_mhz: float | None, limits: Limits) -> float:
    return max(limits.sm_mhz / sm_mhz - 1, 0.0) if sm_mhz and limits.sm_mhz else 0.0
