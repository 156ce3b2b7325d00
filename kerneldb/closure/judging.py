"""How far a prediction is from what was measured; or why nobody knows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.model import KNOWN_PCT
from kerneldb.closure.unknown import at_least, below, error_pct, minus, plus

if TYPE_CHECKING:
    from kerneldb.closure.duration import Time
    from kerneldb.closure.energy import Energy
    from kerneldb.closure.model import Stage
    from kerneldb.closure.sums import Sums
    from kerneldb.closure.unknown import Figure

NO_WALL: Final = "the wall time was not measured"
PART: Final = "only a part of the launches is selected, and the measurement is of all"
NOTHING_REPLAYED: Final = "no kernel of this stage was replayed on this GPU"
HOST_BOUND: Final = "the GPU waits for the host: the prediction is a lower bound"
WAITS_UNKNOWN: Final = "collectives wait for other ranks, for how long is not known: the traces of all ranks tell"
NO_GAPS: Final = "launch gaps are unknown: few of a full queue in the trace, and no replay measured them"
NO_ENERGY: Final = "the energy was not measured"
NO_POWER: Final = "the power of gaps was not measured"
NOTHING_POWERED: Final = "no kernel of this stage has an energy"
LITTLE_POWERED: Final = "the energy of only {:.1f} % of the kernel time is known"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Intervals and errors of a stage, in ns, mJ and %: columns of `closure`."""

    predicted_low_ns: Figure
    predicted_high_ns: Figure
    kernels_error_pct: Figure
    replayed_error_pct: Figure
    error_pct: Figure
    error_reason: str | None
    predicted_low_mj: Figure
    predicted_high_mj: Figure
    energy_replayed_error_pct: Figure
    energy_error_pct: Figure
    energy_error_reason: str | None
    above_gap_error_pct: Figure
    above_waiting_error_pct: Figure
    above_gap_reason: str | None


def verdict(stage: Stage, sums: Sums, time: Time, energy: Energy) -> Verdict:
    """Hold the predictions of a stage against its measurements. A prediction of little has no interval."""
    untimed, unpowered = _untimed(stage, sums, time), _unpowered(stage, sums, time, energy)
    unknown = unpowered or untimed
    half_ns = sums.kernels_half_ns if at_least(sums.replayed_time_pct, KNOWN_PCT) else None
    half_mj = energy.predicted_half_mj if at_least(energy.powered_time_pct, KNOWN_PCT) else None
    return Verdict(
        predicted_low_ns=minus(time.predicted_ns, half_ns),
        predicted_high_ns=plus(time.predicted_ns, half_ns),
        kernels_error_pct=error_pct(sums.kernels_ns, sums.compared_ns),
        replayed_error_pct=_unless(untimed, error_pct(time.predicted_replayed_ns, stage.wall_ns)),
        error_pct=_unless(untimed, error_pct(time.predicted_ns, stage.wall_ns)),
        error_reason=untimed,
        predicted_low_mj=minus(energy.predicted_mj, half_mj),
        predicted_high_mj=plus(energy.predicted_mj, half_mj),
        energy_replayed_error_pct=_unless(unknown, error_pct(energy.predicted_replayed_mj, stage.energy_mj)),
        energy_error_pct=_unless(unknown, error_pct(energy.predicted_mj, stage.energy_mj)),
        energy_error_reason=unknown,
        above_gap_error_pct=_unless(unpowered, error_pct(energy.above_gap_all_mj, energy.above_gap_measured_mj)),
        above_waiting_error_pct=_unless(
            unpowered, error_pct(energy.above_gap_all_mj, energy.above_waiting_measured_mj)
        ),
        above_gap_reason=unpowered or (NO_WALL if stage.wall_ns is None else None),
    )


def _unless(reason: str | None, value: Figure) -> Figure:
    return value if reason is None else None


def _untimed(stage: Stage, sums: Sums, time: Time) -> str | None:
    """Why there is no error of the time."""
    return _first(
        (stage.wall_ns is None, NO_WALL),
        (time.is_part, PART),
        (sums.kernels_ns == 0, NOTHING_REPLAYED),
        (time.status == "host bound", HOST_BOUND),
        (time.status == "unknown", WAITS_UNKNOWN),
        (time.gaps_ns is None, NO_GAPS),
    )


def _unpowered(stage: Stage, sums: Sums, time: Time, energy: Energy) -> str | None:
    """Why there is no error of the energy above gap."""
    known = energy.powered_time_pct
    return _first(
        (stage.energy_mj is None, stage.energy_reason or NO_ENERGY),
        (time.is_part, PART),
        (energy.gap_power_w is None, NO_POWER),
        (sums.above_gap_mj is None, NOTHING_POWERED),
        (below(known, KNOWN_PCT), LITTLE_POWERED.format(known or 0.0)),
    )


def _first(*reasons: tuple[bool, str]) -> str | None:
    """The first reason that holds."""
    return next((reason for holds, reason in reasons if holds), None)
