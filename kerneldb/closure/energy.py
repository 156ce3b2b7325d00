"""The energy of a stage: what its kernels predict, and what was measured above the power of gaps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.unknown import minus, over, percent, plus, root_of_squares, times

if TYPE_CHECKING:
    from kerneldb.closure.duration import Time
    from kerneldb.closure.model import Run, Stage
    from kerneldb.closure.sums import Sums
    from kerneldb.closure.unknown import Figure

MJ_PER_W_NS: Final = 1e-6
Z95: Final = 1.96


@dataclasses.dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a stage per iteration, in mJ; columns of `closure` but for `predicted_half_mj`.

    `above_gap_half_mj` has the errors of single energies, and the drift of the meter that all of them share.
    """

    energy_board: str | None
    gap_power_w: Figure
    gap_power_error_w: float
    context_power_w: Figure
    above_gap_half_mj: Figure
    powered_time_pct: Figure
    unpowered_mj: Figure
    above_gap_all_mj: Figure
    gap_mj: Figure
    gap_half_mj: Figure
    waiting_mj: Figure
    predicted_replayed_mj: Figure
    predicted_mj: Figure
    predicted_half_mj: Figure
    above_gap_measured_mj: Figure
    above_gap_measured_half_mj: Figure
    above_waiting_measured_mj: Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Powers:
    """Power of the GPU in W: while its queue is full of empty kernels, and with a context and an empty queue."""

    gap_w: Figure
    gap_error_w: float
    context_w: Figure

    @property
    def pause_w(self) -> Figure:
        """The power while the GPU waits for the host."""
        return self.gap_w if self.context_w is None else self.context_w


def powered(stage: Stage, sums: Sums, time: Time, run: Run | None) -> Energy:
    """Predict the energy: kernels above gap power + an estimate of the rest + gap power for the predicted time.

    Where the GPU waits for the host, the power of an open context for that time comes on top. `run` measured the
    energies of the kernels; the power of gaps is from it, if it has one.
    """
    powers = _powers(stage, run)
    above = plus(sums.above_gap_mj, sums.clock_mj)
    above_half = root_of_squares(sums.above_gap_half_mj, times(Z95, _drift(run), sums.above_gap_mj))
    unpowered = times(over(above, sums.powered_ns), sums.unpowered_ns)
    gap = times(MJ_PER_W_NS, powers.gap_w, time.predicted_ns)
    gap_half = times(MJ_PER_W_NS, powers.gap_error_w, time.predicted_ns)
    waiting = times(MJ_PER_W_NS, powers.pause_w, time.paused_ns)
    replayed = plus(above, gap, waiting)
    return Energy(
        energy_board=run.uuid if run else None,
        gap_power_w=powers.gap_w,
        gap_power_error_w=powers.gap_error_w,
        context_power_w=powers.context_w,
        above_gap_half_mj=above_half,
        powered_time_pct=percent(sums.powered_ns, sums.powered_ns + sums.unpowered_ns),
        unpowered_mj=unpowered,
        above_gap_all_mj=plus(above, unpowered),
        gap_mj=gap,
        gap_half_mj=gap_half,
        waiting_mj=waiting,
        predicted_replayed_mj=replayed,
        predicted_mj=plus(replayed, unpowered),
        predicted_half_mj=root_of_squares(above_half, gap_half),
        above_gap_measured_mj=minus(stage.energy_mj, times(MJ_PER_W_NS, powers.gap_w, stage.wall_ns)),
        above_gap_measured_half_mj=_measured_half(stage, powers),
        above_waiting_measured_mj=_measured_waiting(stage, time, powers),
    )


def _powers(stage: Stage, run: Run | None) -> Powers:
    """Those of the run; where it has none, those known for the GPU of the stage."""
    if run is None or run.gap_power_w is None:
        return Powers(stage.gap_power_w, stage.gap_power_error_w, stage.context_power_w)
    context_w = stage.context_power_w if run.context_power_w is None else run.context_power_w
    return Powers(run.gap_power_w, run.gap_power_error_w or 0.0, context_w)


def _drift(run: Run | None) -> float:
    return (run.energy_drift if run else None) or 0.0


def _measured_half(stage: Stage, powers: Powers) -> Figure:
    half = over(minus(stage.energy_high_mj, stage.energy_low_mj), 2)
    return root_of_squares(half, times(MJ_PER_W_NS, powers.gap_error_w, stage.wall_ns))


def _measured_waiting(stage: Stage, time: Time, powers: Powers) -> Figure:
    """The measured energy less gap power for the time of the prediction and context power for the wait."""
    if time.waiting_ns is None:
        return None
    running = times(MJ_PER_W_NS, powers.gap_w, minus(stage.wall_ns, time.paused_ns))
    return minus(stage.energy_mj, running, times(MJ_PER_W_NS, powers.pause_w, time.paused_ns))
