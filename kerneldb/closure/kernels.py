"""The kernels of measured stages: how often and how long each ran per iteration, and what its replay makes of that."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from kerneldb.closure.model import order
from kerneldb.closure.unknown import below, minus, over, percent, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kerneldb.closure.model import Flow, Given, Key, Launches, Replay, Stage
    from kerneldb.closure.unknown import Figure

BLAS: Final = frozenset({"cuBLAS", "cuBLASLt", "rocBLAS", "hipBLASLt", "Tensile", "CUTLASS"})
COPIES: Final = frozenset({"memcpy", "memset"})
PRODUCTS: Final = frozenset({"GEMM", "GEMV"})
GUESSED: Final = frozenset({"inherited", "inferred"})
"""Routes of launches without a recorded call."""
NEAR: Final = 0.02
"""Launches are a multiple of those of an iteration where they are off by no more than this part."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A row of `closure_kernels`: one signature of a stage, per iteration.

    `tier`: 1 copies and fills, 2 matrix products of a BLAS library, 3 all others. `clock_ns` and `clock_mj` are what it
    takes longer, and costs more, at the clock of the model. `reason` says why there is no time, `energy_reason` why no
    energy.
    """

    trace: str
    stage: str
    mode: str | None
    signature_id: str
    kernel: str | None
    category: str | None
    tier: int
    route: str
    grade: str | None
    cache: str | None
    n: float
    recorded_ns: float
    share_pct: Figure
    replayed_ns: Figure
    replayed_half_ns: Figure
    ratio: Figure
    above_gap_mj: Figure
    above_gap_half_mj: Figure
    clock_ns: Figure
    clock_mj: Figure
    reason: str | None
    energy_reason: str | None
    clock_mhz: Figure
    energy_mhz: Figure
    energy_run_id: str | None
    kernels_trace: str | None
    iterations: int
    wait_ns: Figure

    @property
    def key(self) -> Key:
        """Trace, stage and mode."""
        return self.trace, self.stage, self.mode

    @property
    def time_ns(self) -> float:
        """Its time per iteration, as replayed or else as recorded."""
        return self.recorded_ns if self.replayed_ns is None else self.replayed_ns


class Replays(NamedTuple):
    """Replays by signature, and the GPUs on which each has a time."""

    by_signature: Mapping[str, Sequence[Replay]]
    gpus: Mapping[str, str]


def kernels(given: Given) -> list[Kernel]:
    """The kernels of all stages, those with most time first."""
    replays = _replays(given.replays)
    called = _called(given.launches, replays)
    wholes: dict[Key, list[float]] = collections.defaultdict(list)
    for stage in given.stages:
        wholes[stage.key] += [one.total_ns for one in called.get(_place(stage), ())]
    found = [
        _kernel(stage, iterations(stage, flow), one, math.fsum(wholes[stage.key]), replays)
        for stage in given.stages
        if (flow := given.selected.get(_place(stage)))
        for one in called[_place(stage)]
    ]
    return sorted(found, key=_rank)


def iterations(stage: Stage, flow: Flow) -> int:
    """Iterations in the launches of a stage.

    Where nothing marks them, the measured number of launches of an iteration tells, if theirs is a multiple of it.
    """
    if flow.iterations is not None:
        return flow.iterations
    if not stage.launches or stage.launches < 0:
        return 1
    count = flow.n / stage.launches
    nearest = _rounded(count)
    return max(1, nearest) if abs(count - nearest) <= NEAR * nearest else 1


def _rounded(value: float) -> int:
    """The nearest whole number, from one half on the next: Python's round takes the even one."""
    return math.floor(value + 0.5)


def _place(stage: Stage) -> tuple[str, str]:
    return stage.launches_trace_id, stage.stage


def _rank(kernel: Kernel) -> tuple[object, ...]:
    return *order(kernel.key), -kernel.recorded_ns, kernel.signature_id, kernel.route


def _replays(given: Iterable[Replay]) -> Replays:
    by_signature: dict[str, list[Replay]] = collections.defaultdict(list)
    gpus: dict[str, set[str]] = collections.defaultdict(set)
    for one in given:
        by_signature[one.signature_id].append(one)
        if one.mean_ns is not None and one.gpu is not None:
            gpus[one.signature_id].add(one.gpu)
    return Replays(by_signature, {signature: ", ".join(sorted(names)) for signature, names in gpus.items()})


def _called(launches: Iterable[Launches], replays: Replays) -> dict[tuple[str, str], list[Launches]]:
    """The launches by trace and stage; as the call found for them, where that was replayed."""
    same: dict[tuple[str, str, str, str | None], list[Launches]] = collections.defaultdict(list)
    for one in launches:
        if one.found_id in replays.by_signature:
            same[one.trace_id, one.stage, str(one.found_id), one.found_by].append(one)
        else:
            same[one.trace_id, one.stage, one.signature_id, None].append(one)
    called = collections.defaultdict(list)
    for (trace_id, stage, signature, found_by), some in same.items():
        called[trace_id, stage].append(_summed(some, signature, found_by))
    return called


def _summed(some: Sequence[Launches], signature: str, found_by: str | None) -> Launches:
    """Launches that count as those of one signature; what they are is told by those with most time."""
    waits = [one.wait_ns for one in some if one.wait_ns is not None]
    return dataclasses.replace(
        max(some, key=lambda one: (one.total_ns, one.signature_id)),
        signature_id=signature,
        found_by=found_by,
        unmatched=min((one.unmatched for one in some if one.unmatched is not None), default=None),
        n=sum(one.n for one in some),
        total_ns=sum(one.total_ns for one in some),
        wait_ns=sum(waits) if waits else None,
    )


def _fitting(stage: Stage, found: Iterable[Replay]) -> Replay | None:
    """The replay on the GPU of the stage; where that has no name, one with a time, of any."""
    fit = [one for one in found if stage.gpu is None or one.gpu is None or one.gpu == stage.gpu]
    return min(fit, key=lambda one: (one.mean_ns is None, one.gpu is None, one.gpu or "", one.run_id), default=None)


def _kernel(stage: Stage, count: int, launches: Launches, whole_ns: float, replays: Replays) -> Kernel:
    replay = _fitting(stage, replays.by_signature.get(launches.signature_id, ()))
    n, recorded = launches.n / count, launches.total_ns / count
    mean = replay.mean_ns if replay else None
    above = replay.above_gap_mj if replay else None
    return Kernel(
        trace=stage.trace,
        stage=stage.stage,
        mode=stage.mode,
        signature_id=launches.signature_id,
        kernel=launches.kernel,
        category=launches.category,
        tier=tier(launches),
        route=_route(launches, replay),
        grade=replay.grade if replay else None,
        cache=replay.cache if replay else None,
        n=n,
        recorded_ns=recorded,
        share_pct=percent(launches.total_ns, whole_ns),
        replayed_ns=times(n, mean),
        replayed_half_ns=None if replay is None or mean is None else n * (replay.half_ns or 0),
        ratio=over(times(mean, launches.n), launches.total_ns),
        above_gap_mj=times(n, above),
        above_gap_half_mj=None if replay is None or above is None else n * (replay.above_half_mj or 0),
        clock_ns=None if replay is None else longer_ns(n, stage.sm_mhz, replay),
        clock_mj=None if replay is None else dearer_mj(n, stage.sm_mhz, replay),
        reason=_reason(launches, replay, replays.gpus),
        energy_reason=_energy_reason(replay),
        clock_mhz=replay.clock_mhz if replay else None,
        energy_mhz=replay.energy_mhz if replay else None,
        energy_run_id=replay.energy_run_id if replay and above is not None else None,
        kernels_trace=stage.kernels_trace,
        iterations=count,
        wait_ns=over(launches.wait_ns, count),
    )


def tier(launches: Launches) -> int:
    """1 copies and fills, 2 matrix products of a BLAS library, 3 all others."""
    if launches.kind in COPIES:
        return 1
    return 2 if launches.category in PRODUCTS and launches.library in BLAS else 3


def _route(launches: Launches, replay: Replay | None) -> str:
    """How a kernel is replayed; launches that have a call of their own are not guessed, whoever replayed it."""
    if launches.found_by is not None:
        return launches.found_by
    if replay is None or replay.route is None:
        return "none"
    return "aten" if replay.mean_ns is not None and replay.route in GUESSED else replay.route


def longer_ns(n: float, model_mhz: Figure, replay: Replay) -> Figure:
    """What n launches take longer at the clock of the model, in ns.

    A kernel that the power cap slows down takes `capped_stretch` times as long at `capped_mhz` as at `energy_mhz`, the
    clock of its loop at full clock; in between, its time goes with 1 / clock.
    """
    if replay.mean_ns is None:
        return None
    full, capped = replay.energy_mhz, replay.capped_mhz
    if not (below(model_mhz, full) and below(capped, full)):
        return 0.0
    way = over(minus(over(1, model_mhz), over(1, full)), minus(over(1, capped), over(1, full)))
    return times(n, replay.mean_ns, minus(replay.capped_stretch, 1), _part_of(way))


def dearer_mj(n: float, model_mhz: Figure, replay: Replay) -> Figure:
    """What n launches cost more at the clock of the model, in mJ above the power of gaps; below 0, as it is less.

    A kernel that the power cap slows down takes `capped_energy` times as much at `capped_mhz` as at `energy_mhz`; in
    between, its energy goes with the clock.
    """
    if replay.above_gap_mj is None:
        return None
    full, capped = replay.energy_mhz, replay.capped_mhz
    if not (below(model_mhz, full) and below(capped, full)):
        return 0.0
    way = over(minus(full, model_mhz), minus(full, capped))
    return times(n, replay.above_gap_mj, minus(replay.capped_energy, 1), _part_of(way))


def _part_of(way: Figure) -> Figure:
    """Of the way from one clock to the other, no more than all of it."""
    return None if way is None else min(1.0, way)


def _reason(launches: Launches, replay: Replay | None, gpus: Mapping[str, str]) -> str | None:
    """Why there is no replayed time."""
    if replay is not None and replay.mean_ns is not None:
        return None
    if launches.unmatched is not None:
        return f"under CUDA graphs: {launches.unmatched}"
    if replay is not None:
        return replay.reason
    if launches.signature_id in gpus:
        return f"replayed on another GPU only: {gpus[launches.signature_id]}"
    return "not replayed"


def _energy_reason(replay: Replay | None) -> str | None:
    """Why there is no energy."""
    if replay is None:
        return "not replayed"
    return None if replay.above_gap_mj is not None else replay.energy_reason or "not replayed"
