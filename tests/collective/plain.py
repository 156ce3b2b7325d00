"""Collectives of a PyTorch trace by plain arithmetic on its JSON: what the answers of kerneldb are held to.

Sizes and bus bandwidth as in nccl-tests (doc/PERFORMANCE.md). Times are whole nanoseconds: PyTorch writes microseconds
with three digits behind the point, and so many since the epoch or the boot that a float would not hold them.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

ELEMENT_BYTES = {
    "Float": 4, "Int": 4, "Long": 8, "Double": 8, "Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
}  # fmt: skip
ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
PAIRS = frozenset({"send", "recv", "sendrecv", "coalesced"})
Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Collective:
    """One launch; times in ns."""

    operation: str
    bytes: int
    ranks: int
    dtype: str
    start: int
    duration: int

    @property
    def bus_gbs(self) -> float:
        """Bytes per ns over the links, whatever the number of ranks."""
        factor = 1.0
        if self.operation.startswith("allreduce"):
            factor = 2 * (self.ranks - 1) / self.ranks
        elif re.match("allgather|reducescatter|alltoall|gather|scatter", self.operation):
            factor = (self.ranks - 1) / self.ranks
        return self.bytes / self.duration * factor


def activities(path: Path) -> list[dict[str, Any]]:
    """Everything that ran on the GPU, in the order of the start."""
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    found = [event for event in events if event.get("ph") == "X" and event.get("cat") in ON_GPU]
    return sorted(found, key=lambda event: Decimal(event["ts"]))


def span(event: dict[str, Any]) -> Span:
    """Start and end in ns."""
    start = int(1000 * Decimal(event["ts"]))
    return start, start + int(1000 * Decimal(event["dur"]))


def is_communication(event: dict[str, Any]) -> bool:
    """Whether a kernel is one of NCCL or RCCL."""
    return event["cat"] == "kernel" and re.match("(void )?(nccl|rccl|mscclKernel)", event["name"]) is not None


def collectives(events: Iterable[dict[str, Any]]) -> list[Collective]:
    """The communication kernels of which the trace says what they exchange."""
    return [_collective(event) for event in events if is_communication(event) and "Collective name" in event["args"]]


def _collective(event: dict[str, Any]) -> Collective:
    args = event["args"]
    elements = max(int(args["In msg nelems"]), int(args["Out msg nelems"]))
    name = re.sub("^_|_base$|_", "", args["Collective name"])
    size = elements * ELEMENT_BYTES[args["dtype"]]
    start, end = span(event)
    return Collective(name, size, int(args["Group size"]), args["dtype"], start, end - start)


def times(events: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Time of computation, of communication, and of communication that no computation hides (ns, unions)."""
    compute: list[Span] = []
    communication: list[Span] = []
    for event in events:
        if event["cat"] not in {"kernel", "gpu_memset"}:  # fills are computation
            continue
        (communication if is_communication(event) else compute).append(span(event))
    computation = covered(compute)
    both = covered([*compute, *communication])
    return {"computation": computation, "communication": covered(communication), "exposed": both - computation}


def covered(spans: Iterable[Span]) -> int:
    """The length of the union of intervals."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def waits(by_rank: dict[int, list[Collective]]) -> dict[int, dict[str, int]]:
    """Per rank, transfer and wait of the collectives (ns): the n-th one of a kind is the same on all ranks.

    Pairs of sends and receives are left out: they are no exchange of the whole group.
    """
    grouped: dict[str, dict[int, list[Collective]]] = defaultdict(lambda: defaultdict(list))
    for rank, found in by_rank.items():
        for one in found:
            if one.operation not in PAIRS:
                grouped[one.operation][rank].append(one)
    sums = {rank: {"transfer": 0, "wait": 0, "n": 0} for rank in by_rank}
    for ranks in grouped.values():
        for same in zip(*(ranks[rank] for rank in by_rank), strict=True):
            shortest = min(one.duration for one in same)
            for rank, one in zip(by_rank, same, strict=True):
                sums[rank]["transfer"] += shortest
                sums[rank]["wait"] += one.duration - shortest
                sums[rank]["n"] += 1
    return sums
