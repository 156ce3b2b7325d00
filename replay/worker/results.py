"""Makes the journal's results from what a replay saw and measured."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kerneldb.replay.measure.spread import spread
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import OK, Activity, CallResult, Grade, KernelResult, Spread

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

    def extend(self, other: Verdict) -> None:
        """Take the runs of another session of the same call, where the same kernels came out, launched alike."""
        if [one.launch for one in self.activities] != [one.launch for one in other.activities]:
            self.notes = tuple(dict.fromkeys((*self.notes, CHANGING)))
            return
        for mine, more in zip(self.durations, other.durations, strict=True):
            mine.extend(more)
        self.notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        self.waits = self.waits or other.waits


def usual(ranks: Sequence[Sequence[Sequence[Activity]]]) -> tuple[tuple[Activity, ...], list[list[float]], bool]:
    """What a call launches: `ranks[r][i]` are the activities of its i-th run, where it ran on several devices at once.

    Gives those of one run of the most frequent kind, the durations of each in all runs of that kind on all ranks (the
    shortest of the ranks, run by run), and whether there were other runs.
    """
    launched = [[tuple(one.launch for one in run) for run in rank] for rank in ranks]
    counted = Counter(itertools.chain(*launched)).most_common(1)
    pairs = zip(zip(*ranks, strict=False), zip(*launched, strict=False), strict=True)
    kept = [runs for runs, launches in pairs if set(launches) == {counted[0][0]}]
    seen = tuple(kept[0][0]) if kept else ()
    durations = [[min(run[place].duration_ns for run in runs) for runs in kept] for place in range(len(seen))]
    return seen, durations, len(kept) < max(map(len, ranks))


def success(item: Item, cache: str, verdict: Verdict) -> CallResult:
    """The result of a call that ran."""
    match = verdict.match
    reasons = dict.fromkeys(one.reason for one in match.kernels if one.reason)
    reason = "; ".join(reasons) or ("kernels ran that were not planned" if match.extra else None)
    return CallResult(
        item=item.id,
        route=item.route,
        cache=cache,
        status=OK,
        grade=match.grade,
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


def _kernels(verdict: Verdict) -> tuple[KernelResult, ...]:
    medians = [statistics.median(runs) for runs in verdict.durations if runs]
    total = sum(medians)
    return tuple(
        KernelResult(
            ordinal=one.planned.ordinal,
            signature_id=one.planned.signature_id,
            name=one.planned.name,
            grade=one.grade,
            reason=one.reason,
            replayed=one.seen,
            unknown=one.unknown,
            share=None if one.place is None or not total else round(medians[one.place] / total, 6),
            time=None if one.place is None else spread(verdict.durations[one.place]),
        )
        for one in verdict.match.kernels
    )
