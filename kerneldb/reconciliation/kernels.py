"""The kernels of measured workloads: how often and how long each ran per iteration, and what its replay predicts."""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import TYPE_CHECKING, Final

from kerneldb.reconciliation.model import order
from kerneldb.reconciliation.unknown import below, error_pct, minus, over, percent, root_of_squares, times, total

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from kerneldb.reconciliation.model import Flow, Given, Key, Launches, Replay, Workload
    from kerneldb.reconciliation.unknown import Figure

BLAS: Final = frozenset({"cuBLAS", "cuBLASLt", "rocBLAS", "hipBLASLt", "Tensile", "CUTLASS"})
COPIES: Final = frozenset({"memcpy", "memset"})
PRODUCTS: Final = frozenset({"GEMM", "GEMV"})
TIERS: Final = {1: "1 copies and fills", 2: "2 BLAS matrix products", 3: "3 other kernels"}
GUESSED: Final = frozenset({"inherited", "inferred"})
"""Routes of launches without a recorded call."""
IN_STEPS: Final = ("run_id", "grade", "route", "cache", "mean_ns", "half_ns", "clock_mhz", "reason")
"""What replayed steps say of a kernel; its energy is of kernels that ran alone."""
NEAR: Final = 0.02
"""Launches are a multiple of those of an iteration where they are off by no more than this part."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A row of `reconciliation_kernels`: one signature of a workload, per iteration.

    `tier`: 1 copies and fills, 2 matrix products of a BLAS library, 3 all others. `clock_ns` and `clock_mj` are what it
    takes longer, and costs more, at the clock of the model. `reason` says why there is no time, `energy_reason` why no
    energy.
    """

    trace: str
    workload: str
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
    dynamic_mj: Figure
    dynamic_half_mj: Figure
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
        """Trace, workload and mode."""
        return self.trace, self.workload, self.mode

    @property
    def time_ns(self) -> float:
        """Its time per iteration, as replayed or else as recorded."""
        return self.recorded_ns if self.replayed_ns is None else self.replayed_ns


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Kernels of a workload that have a tier, a category or a route in common, per iteration; times in ns.

    `compared_ns` is the recorded time of those with a replay, which `error_pct` holds their replays against.
    """

    trace: str
    workload: str
    mode: str | None
    grouped_by: str
    part: str | None
    signatures: int
    n: float
    recorded_ns: float
    share_pct: Figure
    replayed_launches_pct: Figure
    compared_ns: Figure
    replayed_ns: Figure
    error_pct: Figure
    dynamic_mj: Figure
    dynamic_error_mj: Figure


def kernels(given: Given) -> list[Kernel]:
    """The kernels of all workloads, those with most time first."""
    replays: dict[str, list[Replay]] = collections.defaultdict(list)
    for replay in given.replays:
        replays[replay.signature_id].append(replay)
    called = _called(given.launches, replays)
    wholes: dict[Key, list[float]] = collections.defaultdict(list)
    for workload in given.workloads:
        wholes[workload.key] += [one.total_ns for one in called.get(_place(workload), ())]
    found = [
        _kernel(
            workload,
            iterations(workload, flow),
            one,
            math.fsum(wholes[workload.key]),
            replays.get(one.signature_id, ()),
        )
        for workload in given.workloads
        if (flow := given.selected.get(_place(workload)))
        for one in called[_place(workload)]
    ]
    return sorted(found, key=_rank)


def iterations(workload: Workload, flow: Flow) -> int:
    """Iterations in the launches of a workload.

    Where nothing marks them, they follow from the measured number of launches per iteration, if theirs is a multiple of
    it.
    """
    if flow.iterations is not None:
        return flow.iterations
    if not workload.launches or workload.launches < 0:
        return 1
    count = flow.n / workload.launches
    nearest = math.floor(count + 0.5)  # Python's round takes the even number
    return max(1, nearest) if abs(count - nearest) <= NEAR * nearest else 1


def _place(workload: Workload) -> tuple[str, str]:
    return workload.launches_trace_id, workload.workload


def _rank(kernel: Kernel) -> tuple[object, ...]:
    return *order(kernel.key), -kernel.recorded_ns, kernel.signature_id, kernel.route


def _called(launches: Iterable[Launches], replays: Container[str | None]) -> dict[tuple[str, str], list[Launches]]:
    """The launches by trace and workload; as the call found for them, where that was replayed."""
    same: dict[tuple[str, str, str, str | None], list[Launches]] = collections.defaultdict(list)
    for one in launches:
        if one.inferred_id in replays:
            same[one.trace_id, one.workload, str(one.inferred_id), one.inferred_by].append(one)
        else:
            same[one.trace_id, one.workload, one.signature_id, None].append(one)
    called = collections.defaultdict(list)
    for (trace_id, workload, signature, inferred_by), some in same.items():
        called[trace_id, workload].append(_summed(some, signature, inferred_by))
    return called


def _summed(some: Sequence[Launches], signature: str, inferred_by: str | None) -> Launches:
    """Launches that count as those of one signature; kernel, kind and library are of those with most time."""
    waits = [one.wait_ns for one in some if one.wait_ns is not None]
    return dataclasses.replace(
        max(some, key=lambda one: (one.total_ns, one.signature_id)),
        signature_id=signature,
        inferred_by=inferred_by,
        unmatched=min((one.unmatched for one in some if one.unmatched is not None), default=None),
        n=sum(one.n for one in some),
        total_ns=sum(one.total_ns for one in some),
        wait_ns=sum(waits) if waits else None,
    )


def _fitting(workload: Workload, found: Iterable[Replay]) -> Replay | None:
    """The replay on the GPU of the workload; where that has no name, one with a time, of any.

    What steps of its own trace say of the time, each kernel in its place, goes before what kernels say that ran alone.
    """
    fit = [one for one in found if workload.gpu is None or one.gpu is None or one.gpu == workload.gpu]
    alone = _first(one for one in fit if one.step_trace_id is None)
    placed = _first(one for one in fit if one.step_trace_id == workload.launches_trace_id)
    if placed is None or alone is None:
        return placed or alone
    timed = {name: getattr(placed, name) for name in IN_STEPS}
    return dataclasses.replace(alone, **timed)


def _first(replays: Iterable[Replay]) -> Replay | None:
    return min(replays, key=lambda one: (one.mean_ns is None, one.gpu is None, one.gpu or "", one.run_id), default=None)


def _kernel(workload: Workload, count: int, launches: Launches, whole_ns: float, replays: Sequence[Replay]) -> Kernel:
    replay = _fitting(workload, replays)
    n, recorded = launches.n / count, launches.total_ns / count
    mean = replay.mean_ns if replay else None
    above = replay.dynamic_mj if replay else None
    clock_ns, clock_mj = _clock_costs(n, workload.sm_mhz, replay) if replay else (None, None)
    return Kernel(
        trace=workload.trace,
        workload=workload.workload,
        mode=workload.mode,
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
        dynamic_mj=times(n, above),
        dynamic_half_mj=None if replay is None or above is None else n * (replay.above_half_mj or 0),
        clock_ns=clock_ns,
        clock_mj=clock_mj,
        reason=_reason(launches, replay, replays),
        energy_reason=None if above is not None else (replay and replay.energy_reason) or "not replayed",
        clock_mhz=replay.clock_mhz if replay else None,
        energy_mhz=replay.energy_mhz if replay else None,
        energy_run_id=replay.energy_run_id if replay and above is not None else None,
        kernels_trace=workload.kernels_trace,
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
    if launches.inferred_by is not None:
        return launches.inferred_by
    if replay is None or replay.route is None:
        return "none"
    return "aten" if replay.mean_ns is not None and replay.route in GUESSED else replay.route


def _clock_costs(n: float, model_mhz: Figure, replay: Replay) -> tuple[Figure, Figure]:
    """What n launches take longer (ns) and cost more dynamic energy (mJ; below 0: less) at the clock of the model.

    A kernel that the power cap slows down takes `capped_stretch` times as long and `capped_energy` times as much energy
    at `capped_mhz` as at `energy_mhz`, the clock of its loop at full clock; in between, its time goes with 1 / clock,
    its energy with the clock.
    """
    longer: Figure = 0.0
    dearer: Figure = 0.0
    full, capped = replay.energy_mhz, replay.capped_mhz
    if below(model_mhz, full) and below(capped, full):
        slowed = over(minus(over(1, model_mhz), over(1, full)), minus(over(1, capped), over(1, full)))
        lowered = over(minus(full, model_mhz), minus(full, capped))
        longer = times(n, replay.mean_ns, minus(replay.capped_stretch, 1), _at_most_one(slowed))
        dearer = times(n, replay.dynamic_mj, minus(replay.capped_energy, 1), _at_most_one(lowered))
    return None if replay.mean_ns is None else longer, None if replay.dynamic_mj is None else dearer


def _at_most_one(share: Figure) -> Figure:
    return None if share is None else min(1.0, share)


def _reason(launches: Launches, replay: Replay | None, replays: Iterable[Replay]) -> str | None:
    """Why there is no replayed time."""
    if replay is not None and replay.mean_ns is not None:
        return None
    if launches.unmatched is not None:
        return f"under CUDA graphs: {launches.unmatched}"
    if replay is not None:
        return replay.reason
    gpus = {one.gpu for one in replays if one.mean_ns is not None and one.gpu is not None}
    return f"replayed on another GPU only: {', '.join(sorted(gpus))}" if gpus else "not replayed"


def groups(kernels: Iterable[Kernel]) -> list[Group]:
    """The groups of all workloads: tiers by number, categories and routes by their time."""
    found: dict[tuple[Key, str, str | None], list[Kernel]] = collections.defaultdict(list)
    for one in kernels:
        for by, part in (("tier", TIERS[one.tier]), ("category", one.category), ("route", one.route)):
            found[one.key, by, part].append(one)
    listed = [_group(key, by, part, some) for (key, by, part), some in found.items()]
    return sorted(listed, key=_group_rank)


def _group(key: Key, by: str, part: str | None, kernels: Sequence[Kernel]) -> Group:
    replayed = [one for one in kernels if one.replayed_ns is not None]
    halves = [one.dynamic_half_mj for one in kernels if one.dynamic_mj is not None]
    n, compared_ns = total(one.n for one in kernels) or 0.0, total(one.recorded_ns for one in replayed)
    replayed_ns = total(one.replayed_ns for one in replayed)
    return Group(
        *key,
        grouped_by=by,
        part=part,
        signatures=len(kernels),
        n=n,
        recorded_ns=total(one.recorded_ns for one in kernels) or 0.0,
        share_pct=total(one.share_pct for one in kernels),
        replayed_launches_pct=percent(total(one.n for one in replayed) or 0.0, n),
        compared_ns=compared_ns,
        replayed_ns=replayed_ns,
        error_pct=error_pct(replayed_ns, compared_ns),
        dynamic_mj=total(one.dynamic_mj for one in kernels),
        dynamic_error_mj=root_of_squares(*halves) if halves else None,
    )


def _group_rank(group: Group) -> tuple[object, ...]:
    tier = (group.part or "") if group.grouped_by == "tier" else ""
    key = order((group.trace, group.workload, group.mode))
    return *key, group.grouped_by, tier, -group.recorded_ns, group.part is None, group.part or ""


def longest(kernels: Iterable[Kernel], top: int) -> Iterator[Kernel]:
    """The `top` kernels of each workload that take most time."""
    seen: collections.Counter[Key] = collections.Counter()
    for one in sorted(kernels, key=_rank):
        seen[one.key] += 1
        if seen[one.key] <= top:
            yield one
