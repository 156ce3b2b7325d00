"""The balance of one workload: time and energy that its kernels predict, and how far that is from the measured."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from kerneldb.reconciliation.model import GRAPH, KNOWN_PCT
from kerneldb.reconciliation.unknown import (
    at_least,
    below,
    error_pct,
    minus,
    over,
    percent,
    plus,
    root_of_squares,
    times,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kerneldb.reconciliation.kernels import Kernel
    from kerneldb.reconciliation.model import Flow, Run, Workload
    from kerneldb.reconciliation.unknown import Figure

FEWEST_GAPS: Final = 20
LEAST_GAPS: Final = 0.05
"""Fewer gaps with a full queue, or a smaller part of all, follow some long kernel and do not represent the rest."""
MJ_PER_W_NS: Final = 1e-6
Z95: Final = 1.96

WAITS_UNKNOWN: Final = "how long collectives waited for other ranks is unknown; ingest the traces of all ranks"
NO_GAPS: Final = "launch gaps are unknown: too few with a full queue in the trace, and no replay measured them"
NO_WALL: Final = "the wall time was not measured"
PART: Final = "only part of the launches is selected, but the measurement is of all"


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """The kernels of a workload together, per iteration; columns of `reconciliation` but for these.

    `replayed_n` launches have a replay. `powered_ns` is the time of kernels whose energy is known, `unpowered_ns` that
    of all others. `dynamic_half_mj` has the errors of single energies, which count as independent. `energy_run_id` is
    the replay run that measured the energy of the kernel with most time.
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
    dynamic_mj: Figure
    dynamic_half_mj: Figure
    inherited_mj: float
    inferred_mj: float
    clock_mj: float
    powered_ns: float
    unpowered_ns: float
    energy_mhz: Figure
    energy_run_id: str | None


def sums(kernels: Sequence[Kernel]) -> Sums:
    """The kernels of a workload, added up."""
    replayed = [one for one in kernels if one.replayed_ns is not None]
    powered = [one for one in kernels if one.dynamic_mj is not None]
    n, recorded = _sum(kernels, lambda one: one.n), _sum(kernels, lambda one: one.recorded_ns)
    compared, replayed_n = _sum(replayed, lambda one: one.recorded_ns), _sum(replayed, lambda one: one.n)
    guessed = {route: [one for one in kernels if one.route == route] for route in ("inherited", "inferred")}
    runs = [(one.recorded_ns, one.energy_run_id) for one in kernels if one.energy_run_id is not None]
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
        dynamic_mj=total(one.dynamic_mj for one in powered),
        dynamic_half_mj=root_of_squares(*(one.dynamic_half_mj for one in powered)) if powered else None,
        inherited_mj=_sum(guessed["inherited"], lambda one: one.dynamic_mj),
        inferred_mj=_sum(guessed["inferred"], lambda one: one.dynamic_mj),
        clock_mj=_sum(kernels, lambda one: one.clock_mj),
        powered_ns=_sum(powered, lambda one: one.time_ns),
        unpowered_ns=_sum((one for one in kernels if one.dynamic_mj is None), lambda one: one.time_ns),
        energy_mhz=_clock(powered, lambda one: one.recorded_ns, lambda one: one.energy_mhz),
        energy_run_id=max(runs)[1] if runs else None,
    )


def _sum(kernels: Iterable[Kernel], figure: Callable[[Kernel], Figure]) -> float:
    """The sum of what is known."""
    return total(map(figure, kernels)) or 0.0


def _clock(kernels: Iterable[Kernel], weight: Callable[[Kernel], Figure], clock: Callable[[Kernel], Figure]) -> Figure:
    """The mean clock in MHz, weighted with the time of the kernels that have one."""
    timed = [one for one in kernels if clock(one) is not None]
    return over(total(times(weight(one), clock(one)) for one in timed), total(map(weight, timed)))


@dataclasses.dataclass(frozen=True, slots=True)
class Time:
    """The time of a workload per iteration, in ns; columns of `reconciliation` but for these.

    `is_part`: only a part of the launches is selected. `paused_ns` is `waiting_ns`, and 0 where that is less or not
    known. `collective_waits_ns` are those under the profiler, which slows ranks unequally: they are not those of the
    measured run, and no part of anything else here.
    """

    status: str
    overlap_ns: Figure
    gap_ns: Figure
    gap_source: str | None
    gap_launches: float
    gaps_ns: Figure
    idle_ns: Figure
    rest_ns: Figure
    predicted_busy_ns: Figure
    predicted_replayed_ns: Figure
    predicted_ns: Figure
    waiting_ns: Figure
    paused_ns: float
    measured_busy_ns: Figure
    busy_share_pct: Figure
    time_reason: str | None
    is_part: bool
    exchanging: bool
    collective_waits_ns: Figure


def timed(workload: Workload, sums: Sums, flow: Flow) -> Time:
    """Predict the time: kernels at the clock of the model - overlap + gaps + idle + launches without a replay.

    That is the wall time if the GPU never waits for the host. Where it was busy for less than 80 % of the measured time
    it did wait: the prediction is a lower bound then, and `waiting_ns`, the rest of the measured time, no prediction.
    """
    exchanging = flow.exchanges > 0 and (workload.launches_world_size or 1) > 1
    waits_unknown = exchanging and flow.unmatched > 0
    is_part = round(sums.n * sums.iterations) < flow.n
    gap_ns, gap_source, idle_ns = _gaps(workload, sums, flow)
    kernels_ns = sums.kernels_ns + sums.clock_ns
    overlap_ns, gap_launches = times(kernels_ns, flow.overlap_share), sums.n * flow.alone_share
    rest_ns = times(sums.unreplayed_ns, minus(1, flow.overlap_share))
    gaps_ns = times(gap_launches, gap_ns)
    predicted_busy_ns = plus(minus(kernels_ns, overlap_ns), rest_ns)
    predicted_ns = plus(predicted_busy_ns, gaps_ns or 0, idle_ns or 0)
    busy_ns = workload.busy_ns  # of ranks that wait for each other, that of the trace without waits
    if exchanging:
        busy_ns = None if waits_unknown else flow.busy_ns / sums.iterations
    share = None if waits_unknown else percent(predicted_busy_ns if busy_ns is None else busy_ns, workload.wall_ns)
    status = _status(workload, share, waits_unknown=waits_unknown)
    waiting_ns = minus(workload.wall_ns, predicted_ns) if status == "host bound" and not is_part else None
    return Time(
        status=status,
        overlap_ns=overlap_ns,
        gap_ns=gap_ns,
        gap_source=gap_source,
        gap_launches=gap_launches,
        gaps_ns=gaps_ns,
        idle_ns=idle_ns,
        rest_ns=rest_ns,
        predicted_busy_ns=predicted_busy_ns,
        predicted_replayed_ns=minus(predicted_ns, rest_ns),
        predicted_ns=predicted_ns,
        waiting_ns=waiting_ns,
        paused_ns=max(0.0, waiting_ns or 0.0),
        measured_busy_ns=busy_ns,
        busy_share_pct=share,
        time_reason="several devices: their times are summed" if flow.devices > 1 else None,
        is_part=is_part,
        exchanging=exchanging,
        collective_waits_ns=over(flow.waits_ns, sums.iterations) if exchanging else None,
    )


def _status(workload: Workload, share: Figure, *, waits_unknown: bool) -> str:
    if workload.wall_ns is None:
        return "unmeasured"
    if waits_unknown:
        return "unknown"
    return "GPU bound" if at_least(share, KNOWN_PCT) else "host bound"


def _gaps(workload: Workload, sums: Sums, flow: Flow) -> tuple[Figure, str | None, Figure]:
    """The gap from launch to launch, of a full queue in the trace, else of replays; its source; the idle time.

    Idle are longer waits from node to node of a CUDA graph, by a trace of it: without graphs, the profiler slows the
    host.
    """
    if flow.queued_gaps < FEWEST_GAPS or flow.queued_gaps < LEAST_GAPS * flow.n:
        source = f"replay run {workload.gap_run_id} (trace: {flow.queued_gaps} gaps with a full queue)"
        return workload.gap_ns, None if workload.gap_ns is None else source, None
    idle_ns = None
    if workload.mode == GRAPH and workload.launches_trace_id == workload.trace_id:
        left_ns = minus(flow.queued_total_ns or 0.0, times(flow.flowing * flow.alone_share, flow.queued_gap_ns))
        idle_ns = None if left_ns is None else max(0.0, left_ns / sums.iterations)
    return flow.queued_gap_ns, f"median of {flow.queued_gaps} gaps with a full queue, trace {workload.trace}", idle_ns


@dataclasses.dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a workload per iteration, in mJ; columns of `reconciliation` but for `predicted_half_mj`.

    `dynamic_half_mj` has the errors of single energies, and the drift of the meter that all of them share.
    """

    energy_board: str | None
    launch_loop_power_w: Figure
    launch_loop_power_error_w: float
    context_power_w: Figure
    dynamic_half_mj: Figure
    powered_time_pct: Figure
    unpowered_mj: Figure
    dynamic_all_mj: Figure
    gap_mj: Figure
    gap_half_mj: Figure
    waiting_mj: Figure
    predicted_replayed_mj: Figure
    predicted_mj: Figure
    predicted_half_mj: Figure
    dynamic_measured_mj: Figure
    dynamic_measured_half_mj: Figure
    above_waiting_measured_mj: Figure


def powered(workload: Workload, sums: Sums, time: Time, run: Run | None) -> Energy:
    """Predict the energy: dynamic energy of kernels, an estimate of the rest, launch-loop power for the predicted time.

    Where the GPU waits for the host, the power of an open context for that time comes on top. `run` measured the
    energies of the kernels; launch-loop power is from it, else that known for the GPU of the workload.
    """
    gap_w, error_w, context_w = (
        workload.launch_loop_power_w,
        workload.launch_loop_power_error_w,
        workload.context_power_w,
    )
    if run is not None and run.launch_loop_power_w is not None:
        gap_w, error_w = run.launch_loop_power_w, run.launch_loop_power_error_w or 0.0
        context_w = context_w if run.context_power_w is None else run.context_power_w
    pause_w = gap_w if context_w is None else context_w
    drift = (run.energy_drift if run else None) or 0.0
    above = plus(sums.dynamic_mj, sums.clock_mj)
    above_half = root_of_squares(sums.dynamic_half_mj, times(Z95, drift, sums.dynamic_mj))
    unpowered = times(over(above, sums.powered_ns), sums.unpowered_ns)
    gap, gap_half = (times(MJ_PER_W_NS, watts, time.predicted_ns) for watts in (gap_w, error_w))
    waiting = times(MJ_PER_W_NS, pause_w, time.paused_ns)
    replayed = plus(above, gap, waiting)
    measured_half = over(minus(workload.energy_high_mj, workload.energy_low_mj), 2)
    above_waiting = (
        None  # the measured energy minus launch-loop power for the predicted time and context power for the wait
    )
    if time.waiting_ns is not None:
        running = times(MJ_PER_W_NS, gap_w, minus(workload.wall_ns, time.paused_ns))
        above_waiting = minus(workload.energy_mj, running, waiting)
    return Energy(
        energy_board=run.uuid if run else None,
        launch_loop_power_w=gap_w,
        launch_loop_power_error_w=error_w,
        context_power_w=context_w,
        dynamic_half_mj=above_half,
        powered_time_pct=percent(sums.powered_ns, sums.powered_ns + sums.unpowered_ns),
        unpowered_mj=unpowered,
        dynamic_all_mj=plus(above, unpowered),
        gap_mj=gap,
        gap_half_mj=gap_half,
        waiting_mj=waiting,
        predicted_replayed_mj=replayed,
        predicted_mj=plus(replayed, unpowered),
        predicted_half_mj=root_of_squares(above_half, gap_half),
        dynamic_measured_mj=minus(workload.energy_mj, times(MJ_PER_W_NS, gap_w, workload.wall_ns)),
        dynamic_measured_half_mj=root_of_squares(measured_half, times(MJ_PER_W_NS, error_w, workload.wall_ns)),
        above_waiting_measured_mj=above_waiting,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Intervals and errors of a workload, in ns, mJ and %: columns of `reconciliation`."""

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
    dynamic_error_pct: Figure
    above_waiting_error_pct: Figure
    dynamic_reason: str | None


def verdict(workload: Workload, sums: Sums, time: Time, energy: Energy) -> Verdict:
    """Hold the predictions of a workload against its measurements. A prediction of little has no interval."""
    untimed, unpowered = _untimed(workload, sums, time), _unpowered(workload, sums, time, energy)
    unknown = unpowered or untimed
    half_ns = sums.kernels_half_ns if at_least(sums.replayed_time_pct, KNOWN_PCT) else None
    half_mj = energy.predicted_half_mj if at_least(energy.powered_time_pct, KNOWN_PCT) else None
    return Verdict(
        predicted_low_ns=minus(time.predicted_ns, half_ns),
        predicted_high_ns=plus(time.predicted_ns, half_ns),
        kernels_error_pct=error_pct(sums.kernels_ns, sums.compared_ns),
        replayed_error_pct=_unless(untimed, error_pct(time.predicted_replayed_ns, workload.wall_ns)),
        error_pct=_unless(untimed, error_pct(time.predicted_ns, workload.wall_ns)),
        error_reason=untimed,
        predicted_low_mj=minus(energy.predicted_mj, half_mj),
        predicted_high_mj=plus(energy.predicted_mj, half_mj),
        energy_replayed_error_pct=_unless(unknown, error_pct(energy.predicted_replayed_mj, workload.energy_mj)),
        energy_error_pct=_unless(unknown, error_pct(energy.predicted_mj, workload.energy_mj)),
        energy_error_reason=unknown,
        dynamic_error_pct=_unless(unpowered, error_pct(energy.dynamic_all_mj, energy.dynamic_measured_mj)),
        above_waiting_error_pct=_unless(unpowered, error_pct(energy.dynamic_all_mj, energy.above_waiting_measured_mj)),
        dynamic_reason=unpowered or (NO_WALL if workload.wall_ns is None else None),
    )


def _unless(reason: str | None, value: Figure) -> Figure:
    return value if reason is None else None


def _untimed(workload: Workload, sums: Sums, time: Time) -> str | None:
    """Why there is no error of the time."""
    return _first_reason(
        (workload.wall_ns is None, NO_WALL),
        (time.is_part, PART),
        (sums.kernels_ns == 0, "no kernel of this workload was replayed on this GPU"),
        (time.status == "host bound", "the GPU waits for the host: the prediction is a lower bound"),
        (time.status == "unknown", WAITS_UNKNOWN),
        (time.gaps_ns is None, NO_GAPS),
    )


def _unpowered(workload: Workload, sums: Sums, time: Time, energy: Energy) -> str | None:
    """Why there is no error of the dynamic energy."""
    known = energy.powered_time_pct
    return _first_reason(
        (workload.energy_mj is None, workload.energy_reason or "the energy was not measured"),
        (time.is_part, PART),
        (energy.launch_loop_power_w is None, "launch-loop power was not measured"),
        (sums.dynamic_mj is None, "no kernel of this workload has a measured energy"),
        (below(known, KNOWN_PCT), f"the energy of only {known or 0.0:.1f} % of the kernel time is known"),
    )


def _first_reason(*reasons: tuple[bool, str]) -> str | None:
    """The first reason that holds."""
    return next((reason for holds, reason in reasons if holds), None)


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadBalance:
    """A row of `reconciliation`, in parts whose fields are named like its columns."""

    workload: Workload
    sums: Sums
    time: Time
    energy: Energy
    verdict: Verdict

    def row(self) -> Mapping[str, object]:
        """The row: what a later part says of a column goes before what an earlier one does."""
        parts = (self.workload, self.sums, self.time, self.energy, self.verdict)
        named = {field.name: getattr(part, field.name) for part in parts for field in dataclasses.fields(part)}
        return {**named, "model_mhz": self.workload.sm_mhz}


def balance(workload: Workload, sums: Sums, flow: Flow, run: Run | None) -> WorkloadBalance:
    """The balance of a workload by the sums over its kernels; `run` measured the energy of most of them."""
    time = timed(workload, sums, flow)
    energy = powered(workload, sums, time, run)
    return WorkloadBalance(workload, sums, time, energy, verdict(workload, sums, time, energy))
