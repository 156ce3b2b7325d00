"""Sums over the kernels of a stage."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from kerneldb.closure.unknown import over, percent, root_of_squares, times, total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kerneldb.closure.kernels import Kernel
    from kerneldb.closure.unknown import Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """The kernels of a stage together, per iteration; columns of `closure` but for these.

    `replayed_n` launches have a replay. `powered_ns` is the time of kernels whose energy is known, `unpowered_ns` that
    of all others. `above_gap_half_mj` has the errors of single energies, which count as independent.
    """

    iterations: int
    signatures: int
    n: float
    replayed_n: float
    replayed_launches_pct: Figure
    replayed_time_pct: Figure
    caches: str | None
    recorded_ns: float
    compared_ns: float
    kernels_ns: float
    kernels_half_ns: float
    inherited_ns: float
    inferred_ns: float
    unreplayed_ns: float
    clock_ns: float
    replay_mhz: Figure
    above_gap_mj: Figure
    above_gap_half_mj: Figure
    inherited_mj: float
    inferred_mj: float
    clock_mj: float
    powered_ns: float
    unpowered_ns: float
    energy_mhz: Figure
    energy_run_id: str | None


def sums(kernels: Sequence[Kernel]) -> Sums:
    """The kernels of a stage, added up."""
    replayed = [one for one in kernels if one.replayed_ns is not None]
    powered = [one for one in kernels if one.above_gap_mj is not None]
    n, recorded = _sum(kernels, lambda one: one.n), _sum(kernels, lambda one: one.recorded_ns)
    compared, replayed_n = _sum(replayed, lambda one: one.recorded_ns), _sum(replayed, lambda one: one.n)
    guessed = {route: [one for one in kernels if one.route == route] for route in ("inherited", "inferred")}
    return Sums(
        iterations=kernels[0].iterations,
        signatures=len(kernels),
        n=n,
        replayed_n=replayed_n,
        replayed_launches_pct=percent(replayed_n, n),
        replayed_time_pct=percent(compared, recorded),
        caches=", ".join(sorted({one.cache for one in kernels if one.cache is not None})) or None,
        recorded_ns=recorded,
        compared_ns=compared,
        kernels_ns=_sum(replayed, lambda one: one.replayed_ns),
        kernels_half_ns=math.hypot(*(one.replayed_half_ns or 0 for one in replayed)),
        inherited_ns=_sum(guessed["inherited"], lambda one: one.replayed_ns),
        inferred_ns=_sum(guessed["inferred"], lambda one: one.replayed_ns),
        unreplayed_ns=_sum((one for one in kernels if one.replayed_ns is None), lambda one: one.recorded_ns),
        clock_ns=_sum(kernels, lambda one: one.clock_ns),
        replay_mhz=_clock(replayed, lambda one: one.replayed_ns, lambda one: one.clock_mhz),
        above_gap_mj=total(one.above_gap_mj for one in powered),
        above_gap_half_mj=root_of_squares(*(one.above_gap_half_mj for one in powered)) if powered else None,
        inherited_mj=_sum(guessed["inherited"], lambda one: one.above_gap_mj),
        inferred_mj=_sum(guessed["inferred"], lambda one: one.above_gap_mj),
        clock_mj=_sum(kernels, lambda one: one.clock_mj),
        powered_ns=_sum(powered, lambda one: one.time_ns),
        unpowered_ns=_sum((one for one in kernels if one.above_gap_mj is None), lambda one: one.time_ns),
        energy_mhz=_clock(powered, lambda one: one.recorded_ns, lambda one: one.energy_mhz),
        energy_run_id=_main_run(kernels),
    )


def _sum(kernels: Iterable[Kernel], figure: Callable[[Kernel], Figure]) -> float:
    """The sum of what is known."""
    return total(map(figure, kernels)) or 0.0


def _clock(kernels: Iterable[Kernel], weight: Callable[[Kernel], Figure], clock: Callable[[Kernel], Figure]) -> Figure:
    """The mean clock in MHz, weighted with the time of the kernels that have one."""
    timed = [one for one in kernels if clock(one) is not None]
    return over(total(times(weight(one), clock(one)) for one in timed), total(map(weight, timed)))


def _main_run(kernels: Iterable[Kernel]) -> str | None:
    """The replay run that measured the energy of the kernel with most time."""
    runs = [(one.recorded_ns, one.energy_run_id) for one in kernels if one.energy_run_id is not None]
    return max(runs)[1] if runs else None
