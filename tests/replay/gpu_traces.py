"""Calls that launched kernels in GPU traces, rebuilt on the meta device: no GPU, no memory."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerneldb.replay import resolve
from kerneldb.replay.plan.evidence import Trace
from tests.replay import recording

GPU = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
OPERATORS = ("cpu_op", "Operator")
"""The categories of today, and those up to torch 1.11."""


@dataclass
class Coverage:
    """Launches with and without a recorded operator, and what became of the distinct calls."""

    launches: int = 0
    linked: int = 0
    rebuilt: int = 0
    distinct: int = 0
    misses: Counter[str] = field(default_factory=Counter)

    def share(self) -> float:
        return 100 * self.rebuilt / max(self.linked, 1)


def coverage(path: Path, device: str = "meta") -> Coverage:
    """Rebuild every call of `path` that launched something."""
    raw = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    trace, places = _operators(raw)
    found, counts = Coverage(), Counter[int]()
    for one in raw:
        if one.get("cat") in GPU and one.get("ph") == "X":
            found.launches += 1
            place = _dispatcher(trace, places.get(one["args"].get("External id", one["args"].get("external id"))))
            if place is not None:
                counts[place] += 1
    by_call: dict[Any, tuple[int, int]] = {}
    for place, count in counts.items():
        spec = trace.spec(place)
        key = (spec.call, spec.children, spec.neighbours)
        by_call[key] = (place, count + by_call.get(key, (0, 0))[1])
    for place, count in by_call.values():
        _rebuild(trace, place, count, found, device)
    return found


def _operators(raw: list[dict[str, Any]]) -> tuple[Trace, dict[int, int]]:
    """All operators with their parents, and their places by External id."""
    operators = [one for one in raw if one.get("cat") in OPERATORS and one.get("ph") == "X"]
    events = recording.nested(operators)
    order = sorted(operators, key=lambda one: one["ts"])
    places = {one["args"]["External id"]: place for place, one in enumerate(order) if "External id" in one["args"]}
    return recording.as_trace(events), places


def _dispatcher(trace: Trace, place: int | None) -> int | None:
    """The operator itself, or the closest one around it that is no autograd node."""
    while place is not None and not resolve.schema.overloads(trace.calls[place].op):
        if "::" in trace.calls[place].op and not trace.calls[place].op.startswith(("torch::", "autograd::")):
            return place
        place = trace.parents[place]
    return place


def _rebuild(trace: Trace, place: int, count: int, found: Coverage, device: str) -> None:
    found.linked += count
    found.distinct += 1
    try:
        next(iter(resolve.candidates(trace.spec(place), device)))
    except resolve.UnresolvedCallError as error:
        found.misses[f"{trace.calls[place].op}: {error}"] += count
        return
    found.rebuilt += count
