"""Rows of `measurements` as bundle.json holds them: per quantity a value with its 95 % interval, or a reason."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any, Final

from kerneldb.recordings import Measurement
from kerneldb.replay.recording.measuring import Interval, Repetition, interval

WALL: Final = "device clock over a loop of iterations without a pause, no profiler"
WALL_CPU: Final = "host clock over a loop of iterations, no profiler"
ENERGY: Final = "power between edges of the energy counter while the loop ran, times wall time"
PROFILER: Final = "profiler"
NO_GPU: Final = "nothing ran on a GPU"
UNEQUAL: Final = "the ranks show other collectives: how long these waited is not known"


def row(quantity: str, value: float | Interval | None, unit: str | None = None, **more: Any) -> Measurement:
    """One row; `value` may have its interval with it."""
    known = dataclasses.asdict(value) if isinstance(value, Interval) else {"value": value}
    return Measurement(quantity, unit=unit, **known, **more)


def of_repetitions(repetitions: Sequence[Repetition], *, on_gpu: bool, no_meter: str | None) -> list[Measurement]:
    """Wall time, energy and power, of each repetition and over all."""
    wall = WALL if on_gpu else WALL_CPU
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
        return [row("busy_ns", None, "ns", reason=NO_GPU), count]
    how = {"reason": UNEQUAL} if busy_ns is None else {"method": PROFILER}
    return [row("busy_ns", busy_ns, "ns", n=iterations, **how), count]


def stamped(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows with the time of now."""
    now = datetime.datetime.now(tz=datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
    return [dataclasses.replace(one, measured_at=now) for one in rows]
