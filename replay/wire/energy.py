"""What an energy measurement leaves in the journal: per run, and per call with its windows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kerneldb import codec


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of time in which the device ran one call again and again.

    `at` is the middle, in seconds of wall-clock time (UTC); `seconds` lie between its first and last edge, `steps`
    steps of the counter. `power_w` is the mean power of the device, ± `power_sd_w`; `slot_ns` the time from one call to
    the next, ± `slot_sd_ns`. Upkeep of the inputs that ran between the calls (restored values, flushes) took
    `upkeep_ns` of each slot at `upkeep_w` ± `upkeep_sd_w`, measured alone. `memory_nj` is what it costs to bring those
    inputs from memory that the loop found in the cache. `trend` is the rise of power within. Of the upkeep, `pad_ns`
    are idle padding, which keeps the loop below the power cap; `slowed` is by what share that cap slowed it down all
    the same.
    """

    at: float
    seconds: float
    power_w: float
    power_sd_w: float
    slot_ns: float
    steps: int
    slot_sd_ns: float = 0.0
    upkeep_ns: float = 0.0
    upkeep_w: float = 0.0
    upkeep_sd_w: float = 0.0
    memory_nj: float = 0.0
    temperature_c: float | None = None
    sm_mhz: float | None = None
    throttle: str | None = None
    trend: float = 0.0
    loop: str = "graph"
    pad_ns: float = 0.0
    slowed: float = 0.0


@dataclass(frozen=True, slots=True)
class CallEnergy:
    """The energy of one call in millijoules, with 95 % intervals; None with the `reason` where there is none.

    See `measure.energy.evaluate` for what `energy_mj` and `dynamic_mj` are. `power_w` is the mean power of
    the device in the loop, `busy_share` the time of the kernels over that of the slot, `seconds` the time measured.
    `final` is false while further windows, or a better correction for drift, are to come.

    A call that the power cap slows down was also measured so: at the clock `capped_mhz` it takes `capped_stretch` times
    as long, and costs `capped_dynamic_mj` above the gap. None for a call that it does not slow down.
    """

    energy_mj: float | None = None
    energy_low_mj: float | None = None
    energy_high_mj: float | None = None
    dynamic_mj: float | None = codec.once("above_gap_mj", None)
    dynamic_low_mj: float | None = codec.once("above_gap_low_mj", None)
    dynamic_high_mj: float | None = codec.once("above_gap_high_mj", None)
    power_w: float | None = None
    busy_share: float | None = None
    seconds: float | None = None
    method: str | None = None
    reason: str | None = None
    sm_mhz: float | None = None
    throttle: str | None = None
    capped_mhz: float | None = None
    capped_stretch: float | None = None
    capped_dynamic_mj: float | None = codec.once("capped_above_gap_mj", None)
    final: bool = True
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class EnergyFacts:
    """The energy measurement of a run: its meter (or the `reason` why there is none), and what all calls share.

    Powers in watts with standard deviations: `idle` without a context on the device, `context` with one and nothing
    running, `gap` with the queue full of empty kernels, one every `gap_slot_ns`, at `gap_temperature_c`; `gap_slope` is
    its rise per °C. Of the slot, an empty kernel itself takes `empty_ns`, and `gap_ns` are left between two of them;
    both are None where the former is not known. `gaps` and `anchors` are the windows of empty kernels and of one matrix
    product, measured now and then; `flush` is that of reading the cache full, `pad` that of waiting. `seed` orders the
    calls; `spent_s` of `budget_s` seconds are used.
    """

    meter: str | None = None
    reason: str | None = None
    period_ms: float | None = None
    period_sd_ms: float | None = None
    jitter_ms: float | None = None
    idle_power_w: float | None = None
    idle_power_sd_w: float | None = None
    context_power_w: float | None = None
    context_power_sd_w: float | None = None
    launch_loop_power_w: float | None = codec.once("gap_power_w", None)
    launch_loop_power_sd_w: float | None = codec.once("gap_power_sd_w", None)
    gap_temperature_c: float | None = None
    gap_slope: float = 0.0
    gap_ns: float | None = None
    gap_slot_ns: float | None = None
    empty_ns: float | None = None
    drift: float | None = None
    repeatability: float | None = None
    seed: int | None = None
    budget_s: float | None = None
    spent_s: float = 0.0
    gaps: tuple[Window, ...] = ()
    anchors: tuple[Window, ...] = ()
    flush: Window | None = None
    pad: Window | None = None


def together(reasons: Iterable[str | None]) -> str | None:
    """Throttle reasons of several readings as one text; None where there are none."""
    named = dict.fromkeys(one for several in reasons if several for one in several.split(", "))
    return ", ".join(named) or None
