"""Rows of `measurements` as bundle.json holds them: per quantity a value with its 95 % interval, or a reason."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

from kerneldb.replay.recording.measuring import Interval, Repetition, interval

Row = dict[str, Any]

WALL: Final = "device clock over a loop of iterations without a pause, no profiler"
WALL_CPU: Final = "host clock over a loop of iterations, no profiler"
ENERGY: Final = "power between edges of the energy counter while the loop ran, times wall time"
PROFILER: Final = "profiler"
NO_GPU: Final = "nothing ran on a GPU"
UNEQUAL: Final = "the ranks show other collectives: how long these waited is not known"


def row(quantity: str, value: float | Interval | None, unit: str | None, **more: Any) -> Row:
    """One row; fields that are None are left out."""
    bounds = value if isinstance(value, Interval) else None
    found = {
        "quantity": quantity,
        "value": bounds.value if bounds else value,
        "low": bounds.low if bounds else None,
        "high": bounds.high if bounds else None,
        "unit": unit,
        **more,
    }
    return {key: one for key, one in found.items() if one is not None}


def of_repetitions(repetitions: Sequence[Repetition], *, on_gpu: bool, no_meter: str | None) -> list[Row]:
    """Wall time, energy and power, of each repetition and over all."""
    wall = WALL if on_gpu else WALL_CPU
    rows = [
        found
        for number, one in enumerate(repetitions, 1)
        for found in (
            row("wall_ns", one.wall_ns, "ns", n=one.iterations, method=wall, repetition=number),
            row("energy_mj", one.energy_mj, "mJ", n=one.iterations, repetition=number, **_how(one, no_meter)),
        )
    ]
    n = sum(one.iterations for one in repetitions)
    rows.append(row("wall_ns", interval([one.wall_ns for one in repetitions]), "ns", n=n, method=wall))
    rows += _energy(repetitions, n, no_meter)
    clocks = [one.sm_mhz for one in repetitions if one.sm_mhz is not None]
    rows.append(row("iterations", n, None))
    rows.append(row("seconds", sum(one.seconds for one in repetitions), "s"))
    if clocks:
        rows.append(row("sm_mhz", interval(clocks), "MHz"))
    return rows


def _how(one: Repetition, no_meter: str | None) -> Row:
    return {"method": ENERGY} if one.power is not None else {"reason": no_meter or one.reason}


def _energy(repetitions: Sequence[Repetition], n: int, no_meter: str | None) -> list[Row]:
    """Energy and power over all repetitions that have them."""
    measured = [(one, one.power) for one in repetitions if one.power is not None]
    if not measured:
        reason = no_meter or next((one.reason for one in repetitions if one.reason), None)
        return [row("energy_mj", None, "mJ", reason=reason), row("power_w", None, "W", reason=reason)]
    energies = [drawn.power_w * one.wall_ns / 1e6 for one, drawn in measured]
    own = [drawn.sd_w * one.wall_ns / 1e6 for one, drawn in measured]
    powers, sds = [drawn.power_w for _, drawn in measured], [drawn.sd_w for _, drawn in measured]
    return [
        row("energy_mj", interval(energies, own), "mJ", n=n, method=ENERGY),
        row("power_w", interval(powers, sds), "W", n=n, method=ENERGY),
    ]


def of_trace(busy_ns: float | None, launches: float | None, iterations: int) -> list[Row]:
    """What the traced iterations say: time in which the device ran anything, and launches, per iteration."""
    if not launches:
        return [row("busy_ns", None, "ns", reason=NO_GPU), row("launches", 0, None, n=iterations, method=PROFILER)]
    busy = {"method": PROFILER} if busy_ns is not None else {"reason": UNEQUAL}
    return [
        row("busy_ns", busy_ns, "ns", n=iterations, **busy),
        row("launches", launches, None, n=iterations, method=PROFILER),
    ]


def stamped(rows: Sequence[Row]) -> list[Row]:
    """The rows with the time of now."""
    now = datetime.datetime.now(tz=datetime.UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
    return [{**one, "measured_at": now} for one in rows]
