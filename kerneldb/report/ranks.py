"""Who waits for whom among the ranks of a job, and what the late one did until it joined, as sentences."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.output.units import duration, size
from kerneldb.shell import Name, kerneldb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CLEAR: Final = 0.7
"""One reason alone is told where it makes up so much of the time by which a rank is late."""
LEAST: Final = 0.05
"""Nothing is told of a rank for which others wait less than such a part of all waiting."""


@dataclasses.dataclass(slots=True)
class Late:
    """What the ranks of a job waited for one of them; the row of the longest wait, and the reasons where known."""

    run: str
    rank: int
    longest: Mapping[str, Any]
    wait_ns: int = 0
    n: int = 0
    waiting: int = 0
    computed_ns: int | None = None
    idle_ns: int | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a rank that waited for this one."""
        self.wait_ns += row["wait_ns"]
        self.n = max(self.n, row["n"])
        self.waiting += 1
        if row["idle_longer_ns"] is not None:
            self.computed_ns = (self.computed_ns or 0) + row["computed_longer_ns"]
            self.idle_ns = (self.idle_ns or 0) + row["idle_longer_ns"]
        self.longest = max(self.longest, row, key=lambda one: one["longest_wait_ns"])

    def is_computing(self) -> bool:
        """Whether it is late because its GPU is busy longer."""
        computed, idle = max(self.computed_ns or 0, 0), max(self.idle_ns or 0, 0)
        return computed > 0 and computed >= CLEAR * (computed + idle)

    def reason(self) -> str:
        """What it did longer than those that waited, and what to look at; empty where nothing stands out."""
        computed, idle = max(self.computed_ns or 0, 0), max(self.idle_ns or 0, 0)
        trace, waiting = Name(self.longest["late_trace"]), Name(self.longest["trace"])
        whole = computed + idle
        if not whole:
            return ""
        if idle >= CLEAR * whole:
            return f"its GPU stood idle {duration(idle)} longer before: its host was late ({kerneldb('why', trace)})"
        if self.is_computing():
            compared = kerneldb("diff", waiting, trace)
            return f"its GPU was busy {duration(computed)} longer before: slower kernels, or more of them ({compared})"
        return f"its GPU was busy {duration(computed)} longer before, and idle {duration(idle)} longer"

    def sentence(self, job: str) -> str:
        """Who waited how long, in what, and why; `job` comes before it."""
        row, times = self.longest, "collective" if self.n == 1 else "collectives"
        who, together = (f"rank {row['rank']}", "") if self.waiting == 1 else (f"{self.waiting} ranks", " together")
        size_of = f" of {size(row['longest_bytes'])}" if row["longest_bytes"] else ""
        longest = f"{duration(row['longest_wait_ns'])} in {row['longest_operation'] or 'one'}{size_of}"
        reason = self.reason()
        return (
            f"{job}{who} waited{together} {duration(self.wait_ns)} for rank {self.rank}, in {self.n:,} "
            f"{times}, longest {longest}, which rank {row['rank']} began at {duration(row['longest_at_ns'])}"
            f"{'; ' if reason else ''}{reason}."
        )


def late(rows: Sequence[Mapping[str, Any]]) -> list[Late]:
    """The ranks of each job that were waited for, by rows of `collective_stragglers`, most time first."""
    found: dict[tuple[str, int], Late] = {}
    for row in rows:
        key = row["run"], row["late_rank"]
        found.setdefault(key, Late(*key, row)).add(row)
    return sorted(found.values(), key=lambda one: -one.wait_ns)


def sentences(rows: Sequence[Mapping[str, Any]], *, named: bool = True) -> Iterator[str]:
    """A sentence for each rank that is worth looking at; `named`, or of several jobs, with the name of its job."""
    found = late(rows)
    total = sum(one.wait_ns for one in found)
    shown = named or len({one.run for one in found}) > 1
    for one in found:
        if one.wait_ns >= LEAST * total:
            said = one.sentence(f"job {one.run}: " if shown else "")
            yield said[:1].upper() + said[1:]
