"""The time of a stage: what its kernels predict, and what of the measured time is left."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from kerneldb.closure.model import GRAPH, KNOWN_PCT
from kerneldb.closure.unknown import at_least, minus, over, percent, plus, times

if TYPE_CHECKING:
    from kerneldb.closure.model import Flow, Stage
    from kerneldb.closure.sums import Sums
    from kerneldb.closure.unknown import Figure

FEWEST_GAPS: Final = 20
LEAST_GAPS: Final = 0.05
"""Fewer gaps of a full queue, or a smaller part of all, are those behind some long kernel, not those of the rest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Time:
    """The time of a stage per iteration, in ns; columns of `closure` but for these.

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


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """What lies between launches: `gap_ns` from one to the next, by `source`; `idle_ns` of a graph beyond that."""

    gap_ns: Figure
    source: str | None
    idle_ns: Figure


def timed(stage: Stage, sums: Sums, flow: Flow) -> Time:
    """Predict the time: kernels at the clock of the model - overlap + gaps + idle + launches without a replay.

    That is the wall time if the GPU never waits for the host. Where it was busy for less than 80 % of the measured time
    it did wait: the prediction is a lower bound then, and `waiting_ns`, the rest of the measured time, no prediction.
    """
    gaps, busy_ns = _gaps(stage, sums, flow), _measured_busy(stage, sums, flow)
    kernels_ns = sums.kernels_ns + sums.clock_ns
    overlap_ns, gap_launches = times(kernels_ns, flow.overlap_share), sums.n * flow.alone_share
    rest_ns = times(sums.unreplayed_ns, minus(1, flow.overlap_share))
    gaps_ns = times(gap_launches, gaps.gap_ns)
    predicted_busy_ns = plus(minus(kernels_ns, overlap_ns), rest_ns)
    predicted_ns = plus(predicted_busy_ns, gaps_ns or 0, gaps.idle_ns or 0)
    waits_unknown, is_part = _waits_unknown(stage, flow), _is_part(sums, flow)
    share = None if waits_unknown else percent(predicted_busy_ns if busy_ns is None else busy_ns, stage.wall_ns)
    status = _status(stage, share, waits_unknown=waits_unknown)
    waiting_ns = minus(stage.wall_ns, predicted_ns) if status == "host bound" and not is_part else None
    return Time(
        status=status,
        overlap_ns=overlap_ns,
        gap_ns=gaps.gap_ns,
        gap_source=gaps.source,
        gap_launches=gap_launches,
        gaps_ns=gaps_ns,
        idle_ns=gaps.idle_ns,
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
        exchanging=_exchanges(stage, flow),
        collective_waits_ns=over(flow.waits_ns, sums.iterations) if _exchanges(stage, flow) else None,
    )


def _status(stage: Stage, share: Figure, *, waits_unknown: bool) -> str:
    if stage.wall_ns is None:
        return "unmeasured"
    if waits_unknown:
        return "unknown"
    return "GPU bound" if at_least(share, KNOWN_PCT) else "host bound"


def _is_part(sums: Sums, flow: Flow) -> bool:
    """Whether the trace has more launches of the stage than are selected."""
    return round(sums.n * sums.iterations) < flow.n


def _exchanges(stage: Stage, flow: Flow) -> bool:
    """Whether it is a rank of several that exchange anything."""
    return flow.exchanges > 0 and (stage.launches_world_size or 1) > 1


def _waits_unknown(stage: Stage, flow: Flow) -> bool:
    return _exchanges(stage, flow) and flow.unmatched > 0


def _measured_busy(stage: Stage, sums: Sums, flow: Flow) -> Figure:
    """The time in which the GPU ran anything; of ranks that wait for each other, that of the trace without waits."""
    if not _exchanges(stage, flow):
        return stage.busy_ns
    return None if flow.unmatched else flow.busy_ns / sums.iterations


def _gaps(stage: Stage, sums: Sums, flow: Flow) -> Gaps:
    """The gap from launch to launch: that of a full queue in the trace, else that of replays."""
    if flow.queued_gaps >= FEWEST_GAPS and flow.queued_gaps >= LEAST_GAPS * flow.n:
        source = f"median of {flow.queued_gaps} gaps of a full queue, trace {stage.trace}"
        return Gaps(flow.queued_gap_ns, source, _idle(stage, sums, flow))
    source = f"replay run {stage.gap_run_id} (trace: {flow.queued_gaps} gaps of a full queue)"
    return Gaps(stage.gap_ns, None if stage.gap_ns is None else source, None)


def _idle(stage: Stage, sums: Sums, flow: Flow) -> Figure:
    """Longer waits from node to node of a CUDA graph, by a trace of it: without graphs, the profiler slows the host."""
    if stage.mode != GRAPH or stage.launches_trace_id != stage.trace_id:
        return None
    short_ns = times(flow.flowing * flow.alone_share, flow.queued_gap_ns)
    left_ns = minus(flow.queued_total_ns or 0.0, short_ns)
    return None if left_ns is None else max(0.0, left_ns / sums.iterations)
