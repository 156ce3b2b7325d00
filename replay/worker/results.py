"""Makes the journal's results from what a replay saw and measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kerneldb.replay.measure.spread import Spread, spread
from kerneldb.replay.wire.journal import FAILED, OK, CallResult, KernelResult
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.worker.activity import Activity
from kerneldb.replay.worker.grades import CallMatch, Grade, failed

CHANGING: Final = "kernels differ between runs"


@dataclass(slots=True)
class Verdict:
    """What one rebuilt call (the `attempt`-th of its route) came to.

    `durations[i]` are those of the i-th activity in call order, one per run, in nanoseconds; `activities` one run's.
    `waits` tells that the call waited for the device, which a CUDA graph cannot.
    """

    attempt: int
    match: CallMatch
    overload: str | None = None
    notes: tuple[str, ...] = ()
    activities: tuple[Activity, ...] = ()
    durations: list[list[float]] = field(default_factory=list)
    waits: bool = False
    cold_bytes: int = 0
    copies: int = 1

    @property
    def grade(self) -> Grade:
        """The grade of the call."""
        return self.match.grade

    @property
    def totals(self) -> list[float]:
        """GPU time of each run: the sum over its activities, in nanoseconds."""
        return [sum(run) for run in zip(*self.durations, strict=True)] if self.durations else []

    @property
    def time(self) -> Spread | None:
        """The statistics of `totals`."""
        return spread(self.totals)

    def better_than(self, other: Verdict | None) -> bool:
        """Whether this one is closer to the plan; the earlier one wins a tie."""
        return other is None or self._rank() < other._rank()

    def _rank(self) -> tuple[int, int, int]:
        kernels = self.match.kernels
        return self.grade.rank, sum(one.grade.rank for one in kernels), len(self.match.extra)

    def extend(self, other: Verdict) -> None:
        """Take the runs of another session of the same call, where the same kernels came out, launched alike."""
        if [one.launch for one in self.activities] != [one.launch for one in other.activities]:
            self.notes = tuple(dict.fromkeys((*self.notes, CHANGING)))
            return
        for mine, more in zip(self.durations, other.durations, strict=True):
            mine.extend(more)
        self.notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        self.waits = self.waits or other.waits


def success(item: Item, cache: str, verdict: Verdict) -> CallResult:
    """The result of a call that ran."""
    match = verdict.match
    reasons = dict.fromkeys(one.reason for one in match.kernels if one.reason)
    reason = "; ".join(reasons) or ("kernels came out that were not planned" if match.extra else None)
    return CallResult(
        item=item.id,
        route=item.route,
        cache=cache,
        status=OK,
        grade=match.grade.value,
        reason=None if match.grade is Grade.L0 else reason,
        overload=verdict.overload,
        notes=verdict.notes,
        runs=len(verdict.totals),
        kernels=_kernels(verdict),
        extra=match.extra,
        missing=match.missing,
        time=verdict.time,
        inputs={"cold_bytes": verdict.cold_bytes, "ring": verdict.copies},
        attempt=verdict.attempt,
    )


def failure(item: Item, cache: str, reason: str, status: str = FAILED) -> CallResult:
    """The result of a call that failed, or that was not attempted."""
    match = failed(item.kernels, reason)
    return CallResult(
        item=item.id,
        route=item.route,
        cache=cache,
        status=status,
        grade=match.grade.value,
        reason=reason,
        kernels=_kernels(Verdict(0, match)),
        missing=match.missing,
    )


def _kernels(verdict: Verdict) -> tuple[KernelResult, ...]:
    medians = [statistics.median(runs) for runs in verdict.durations if runs]
    return tuple(
        KernelResult(
            ordinal=one.planned.ordinal,
            signature_id=one.planned.signature_id,
            name=one.planned.name,
            grade=one.grade.value,
            reason=one.reason,
            replayed=one.seen,
            unknown=one.unknown,
            share=_share(medians, one.place),
            time=None if one.place is None else spread(verdict.durations[one.place]),
        )
        for one in verdict.match.kernels
    )


def _share(medians: Sequence[float], place: int | None) -> float | None:
    total = sum(medians)
    return None if place is None or not total else round(medians[place] / total, 6)
