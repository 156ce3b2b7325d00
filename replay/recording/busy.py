"""How long a device ran anything in a trace. In a job of several ranks, collectives count from when the last rank came.

A collective lasts until all ranks have come, and the profiler slows them unequally: with those waits, a rank would seem
busy for longer than a run without profiler takes. The shortest of the launches of a collective is its transfer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

ON_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
COLLECTIVE: Final = re.compile(r"(void )?(nccl|rccl|msccl)(?!.*SendRecv)", re.IGNORECASE)
"""Kernels that all ranks of a group run together; pairs of sends and receives are none."""
Durations = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Activities:
    """What ran on the GPUs of a trace (µs): per device, start, end and, of a collective, the name of its kernel."""

    spans: Mapping[Any, Sequence[tuple[float, float, str | None]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.spans.values()))

    def collectives(self) -> Durations:
        """Durations of the collectives, by kernel, in the order of the start."""
        found: Durations = defaultdict(list)
        for start, end, name in sorted(one for some in self.spans.values() for one in some if one[2] is not None):
            found[str(name)].append(end - start)
        return dict(found)

    def busy_ns(self, transfers: Durations | None = None) -> float:
        """Time in which any ran, summed over devices; collectives for their last `transfers`, where these are given."""
        left = {name: iter(some) for name, some in (transfers or {}).items()}
        return 1000 * sum(_union(_shortened(sorted(some, key=itemgetter(0, 1)), left)) for some in self.spans.values())


def activities(events: Iterable[Mapping[str, Any]]) -> Activities:
    """What a Chrome trace holds of GPUs."""
    spans: dict[Any, list[tuple[float, float, str | None]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in ON_GPU and event.get("ph") == "X":
            name = event["name"] if event["cat"] == "kernel" and COLLECTIVE.match(event["name"]) else None
            start = float(event["ts"])
            spans[event.get("pid")].append((start, start + float(event["dur"]), name))
    return Activities(spans)


def transfers(by_rank: Sequence[Durations]) -> Durations | None:
    """The shortest launch of each collective: the n-th of a kernel is the same on all ranks.

    None where the ranks do not show the same ones.
    """
    counts = [{name: len(some) for name, some in one.items()} for one in by_rank]
    if any(one != counts[0] for one in counts):
        return None
    return {name: [min(same) for same in zip(*(one[name] for one in by_rank), strict=True)] for name in by_rank[0]}


def _shortened(
    spans: Iterable[tuple[float, float, str | None]], left: Mapping[str, Iterable[float]]
) -> Iterable[tuple[float, float]]:
    for start, end, name in spans:
        known = None if name is None else next(iter(left.get(name, ())), None)
        yield (start if known is None else end - known), end


def _union(spans: Iterable[tuple[float, float]]) -> float:
    covered, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered
