"""Idle padding: pauses between calls that keep a loop below the power cap of the board.

A matrix product alone in a loop can draw more than the board may. It then runs at a lower clock and voltage, at which
it costs less energy than in a model, where kernels of less power stand between. A loop that was held down is measured
again with idle padding: kernels that only wait, so long that the mean power stays clearly below the cap. Padding is
upkeep: its power is measured alone and taken off. The loop that was held down counts too: it shows what the call costs,
and how long it takes, at its lower clock, and a model that is itself capped runs in between.

Idle padding also helps a call that takes the host longer to enqueue than the device to run: the device waits behind
each, and does not run out of work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kerneldb.replay.measure.energy.meter import Sample
from kerneldb.replay.wire.energy import Window

CAP: Final = "power cap"
FULL_CLOCK: Final = 0.97
FULL_SPEED: Final = 1.03
NEAR_CAP: Final = 0.75
AIM: Final = 0.8
LONGER: Final = 1.5
MOST_PADDED: Final = 2
PATIENT: Final = 4.0
PATIENT_NS: Final = 200_000.0


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
    left_w = AIM * (limits.power_w or last.power_w) - launch_loop_w
    needed = above * stretch / max(left_w, 1.0) - timed_ns
    return max(needed, timed_ns, LONGER * last.pad_ns)


def patient_ns(timed_ns: float) -> float:
    """How long to wait after each call that the host cannot enqueue as fast as it runs."""
    return max(PATIENT * timed_ns, PATIENT_NS)


def _clock_lost(sm_mhz: float | None, limits: Limits) -> float:
    return max(limits.sm_mhz / sm_mhz - 1, 0.0) if sm_mhz and limits.sm_mhz else 0.0
