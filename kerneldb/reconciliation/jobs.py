"""The measured workloads of jobs of several ranks, computation and communication apart.

A collective lasts until the last rank has come: what a launch has beyond the shortest of its ranks is waiting, the rest
transfer, and replays of collectives are held to that. Computation is everything else, copies too.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from kerneldb.reconciliation.model import COMMUNICATION, order
from kerneldb.reconciliation.unknown import error_pct, mean, percent, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kerneldb.reconciliation.kernels import Kernel
    from kerneldb.reconciliation.model import Key, Workload
    from kerneldb.reconciliation.unknown import Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A row of `reconciliation_jobs`: a workload of a job, per iteration; times (ns) and energies (mJ) are means."""

    job: str
    workload: str
    mode: str | None
    run: str | None
    model: str | None
    gpu: str | None
    ranks: int
    world_size: int | None
    wall_ns: Figure
    energy_mj: Figure
    computation_n: Figure
    computation_ns: Figure
    computation_replayed_ns: Figure
    computation_replayed_pct: Figure
    computation_error_pct: Figure
    communication_n: Figure
    communication_ns: Figure
    transfer_ns: Figure
    wait_ns: Figure
    longest_wait_ns: Figure
    slowest_rank: int | None
    transfer_replayed_ns: Figure
    transfer_replayed_pct: Figure
    transfer_error_pct: Figure


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Computation or communication of one rank: launches, times in ns.

    `compared_ns` is the recorded time of what was replayed. Of collectives, `transfer_ns` is that of those whose waits
    are known.
    """

    n: float = 0.0
    recorded_ns: float = 0.0
    compared_ns: float = 0.0
    replayed_ns: float = 0.0
    transfer_ns: Figure = None
    transfer_compared_ns: float = 0.0
    transfer_replayed_ns: float = 0.0
    wait_ns: Figure = None


@dataclasses.dataclass(frozen=True, slots=True)
class Rank:
    """A measured workload of one rank."""

    workload: Workload
    computation: Part
    communication: Part


def jobs(workloads: Iterable[Workload], kernels: Iterable[Kernel]) -> list[Job]:
    """The workloads of all jobs of which several ranks were measured."""
    grouped: dict[tuple[Key, bool], list[Kernel]] = collections.defaultdict(list)
    for one in kernels:
        grouped[one.key, one.category == COMMUNICATION].append(one)
    parts = {key: _part(some) for key, some in grouped.items()}
    nothing = Part()
    ranks: dict[Key, list[Rank]] = collections.defaultdict(list)
    for workload in workloads:
        if workload.has_trace:
            found = (parts.get((workload.key, communicates), nothing) for communicates in (False, True))
            ranks[workload.job or workload.trace, workload.workload, workload.mode].append(Rank(workload, *found))
    several = {key: some for key, some in ranks.items() if len(_numbers(some)) > 1}
    return [_job(key, several[key]) for key in sorted(several, key=order)]


def _part(kernels: Sequence[Kernel]) -> Part:
    replayed = [one for one in kernels if one.replayed_ns is not None]
    known = [one for one in kernels if one.wait_ns is not None]
    both = [one for one in known if one.replayed_ns is not None]
    return Part(
        n=total(one.n for one in kernels) or 0.0,
        recorded_ns=total(one.recorded_ns for one in kernels) or 0.0,
        compared_ns=total(one.recorded_ns for one in replayed) or 0.0,
        replayed_ns=total(one.replayed_ns for one in replayed) or 0.0,
        transfer_ns=total(one.recorded_ns for one in known),
        transfer_compared_ns=total(one.recorded_ns for one in both) or 0.0,
        transfer_replayed_ns=total(one.replayed_ns for one in both) or 0.0,
        wait_ns=total(one.wait_ns for one in known),
    )


def _numbers(ranks: Iterable[Rank]) -> set[int]:
    return {one.workload.rank for one in ranks if one.workload.rank is not None}


def _job(key: Key, ranks: Sequence[Rank]) -> Job:
    """A workload of a job: the longest wall time, the energy of all ranks, the means of all else."""
    job, workload, mode = key
    computed, sent = [one.computation for one in ranks], [one.communication for one in ranks]
    measured = [one.workload for one in ranks]
    energies = [one.energy_mj for one in measured]
    done, moved = total(one.compared_ns for one in computed), total(one.transfer_compared_ns for one in sent)
    return Job(
        job=job,
        workload=workload,
        mode=mode,
        run=_first(one.run for one in measured),
        model=_first(one.model for one in measured),
        gpu=_first(one.gpu for one in measured),
        ranks=len(_numbers(ranks)),
        world_size=max((one.world_size for one in measured if one.world_size is not None), default=None),
        wall_ns=max((one.wall_ns for one in measured if one.wall_ns is not None), default=None),
        energy_mj=None if None in energies else total(energies),
        computation_n=mean(one.n for one in computed),
        computation_ns=mean(one.recorded_ns for one in computed),
        computation_replayed_ns=mean(one.replayed_ns for one in computed),
        computation_replayed_pct=percent(done, total(one.recorded_ns for one in computed)),
        computation_error_pct=error_pct(total(one.replayed_ns for one in computed), done),
        communication_n=mean(one.n for one in sent),
        communication_ns=mean(one.recorded_ns + (one.wait_ns or 0.0) for one in sent),
        transfer_ns=mean(one.transfer_ns for one in sent),
        wait_ns=mean(one.wait_ns for one in sent),
        longest_wait_ns=max((one.wait_ns for one in sent if one.wait_ns is not None), default=None),
        slowest_rank=_slowest(ranks),
        transfer_replayed_ns=mean(one.transfer_replayed_ns for one in sent),
        transfer_replayed_pct=percent(moved, total(one.transfer_ns for one in sent)),
        transfer_error_pct=error_pct(total(one.transfer_replayed_ns for one in sent), moved),
    )


def _first(names: Iterable[str | None]) -> str | None:
    return min((name for name in names if name is not None), default=None)


def _slowest(ranks: Iterable[Rank]) -> int | None:
    """The rank that waits least: the others wait for it."""
    waits = [
        (one.communication.wait_ns, one.workload.rank)
        for one in ranks
        if one.communication.wait_ns is not None and one.workload.rank is not None
    ]
    return min(waits)[1] if waits else None
