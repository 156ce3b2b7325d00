"""What a profiler saw of replayed calls: GPU activities and operators, grouped by the marker around each call.

Reads the Chrome trace that `torch.profiler` exports. A GPU activity belongs to the marker in which its runtime call was
made: activity → `correlation` → runtime event → marker on the same thread. Time on the GPU plays no part in it.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerneldb.replay.worker import exported

ON_GPU: Final = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver"})
MARKER_PREFIX: Final = "kerneldb replay "
WAITS: Final = "Synchronize"
BLOCKING: Final = frozenset({"cudaMemcpy", "hipMemcpy"})


@dataclass(frozen=True, slots=True)
class Activity:
    """One GPU activity, named as the profiler prints it. `grid` in blocks, `block` in threads, sizes in bytes.

    `shared_bytes` is static plus dynamic shared memory (what Kineto prints as "shared memory").
    """

    kind: str
    name: str
    duration_ns: float = 0.0
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_bytes: int | None = None
    bytes: int | None = None

    @property
    def launch(self) -> tuple[Any, ...]:
        """All but its duration."""
        return self.kind, self.name, self.grid, self.block, self.shared_bytes, self.bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator inside a marker; `dims` and `dtypes` as recorded (JSON values), `depth` 0 for the call itself."""

    name: str
    depth: int
    dims: Any = None
    dtypes: Any = None


@dataclass(slots=True)
class Marked:
    """One marked call: its GPU activities and operators in call order, and whether it waited for the device."""

    activities: list[Activity] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    waits: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    start: float
    end: float
    label: str
    marked: Marked


class _Markers:
    """Finds the marker around a point in time of a thread."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self.spans: dict[Any, list[_Span]] = defaultdict(list)
        for event in sorted(events, key=lambda one: float(one["ts"])):
            span = _Span(event["ts"], event["ts"] + event["dur"], event["name"], Marked())
            self.spans[event["tid"]].append(span)
        self._starts = {thread: [span.start for span in spans] for thread, spans in self.spans.items()}

    def around(self, event: Mapping[str, Any]) -> Marked | None:
        thread = event["tid"]
        place = bisect.bisect_right(self._starts.get(thread, ()), event["ts"]) - 1
        if place < 0:
            return None
        span = self.spans[thread][place]
        return span.marked if event["ts"] <= span.end else None

    def by_label(self) -> dict[str, list[Marked]]:
        found: dict[str, list[Marked]] = defaultdict(list)
        for spans in self.spans.values():
            for span in spans:
                found[span.label].append(span.marked)
        return dict(found)


def read(path: Path, *, operators: bool = True) -> dict[str, list[Marked]]:
    """The marked calls of the exported trace at `path`, by marker name, in time order; `operators` with theirs."""
    with exported.no_collection():
        try:
            return _marked(exported.Text(path.read_bytes()), operators)
        except ValueError:
            return _marked(exported.whole(path), operators)


def marked_calls(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Marked]]:
    """The same from parsed trace events."""
    return _marked(exported.Events(events), operators=True)


def _marked(events: exported.Events | exported.Text, operators: bool) -> dict[str, list[Marked]]:
    annotations = events.of("user_annotation")
    markers = _Markers(event for event in annotations if str(event["name"]).startswith(MARKER_PREFIX))
    _place_activities(events, markers)
    if operators:
        _place_operations(events.of("cpu_op"), markers)
    return markers.by_label()


def _place_activities(events: exported.Events | exported.Text, markers: _Markers) -> None:
    calls: dict[int, tuple[float, Marked]] = {}
    for event in (event for category in RUNTIME for event in events.of(category)):
        marked = markers.around(event)
        if marked is None:
            continue
        if event["name"] in BLOCKING or event["name"].endswith(WAITS):
            marked.waits = True
        correlation = event.get("args", {}).get("correlation")
        if correlation is not None:
            calls[correlation] = event["ts"], marked
    placed: list[tuple[float, Marked, Activity]] = []
    for category, kind in ON_GPU.items():
        for event in events.of(category, calls):
            started, marked = calls[event["args"]["correlation"]]
            placed.append((started, marked, _activity(kind, event)))
    for _, marked, activity in sorted(placed, key=lambda one: one[0]):
        marked.activities.append(activity)


def _activity(kind: str, event: Mapping[str, Any]) -> Activity:
    args = event.get("args", {})
    return Activity(
        kind=kind,
        name=str(event["name"]),
        duration_ns=round(float(event["dur"]) * 1000),
        grid=_triple(args.get("grid")),
        block=_triple(args.get("block")),
        shared_bytes=args.get("shared memory"),
        bytes=args.get("bytes"),
    )


def _triple(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) else None


def _place_operations(events: Iterable[Mapping[str, Any]], markers: _Markers) -> None:
    ends: dict[int, list[float]] = defaultdict(list)
    for event in sorted(events, key=lambda one: (one["tid"], one["ts"], -one["dur"])):
        marked = markers.around(event)
        if marked is None:
            continue
        open_until = ends[id(marked)]
        while open_until and event["ts"] >= open_until[-1]:
            open_until.pop()
        args = event.get("args", {})
        operation = Operation(event["name"], len(open_until), args.get("Input Dims"), args.get("Input type"))
        marked.operations.append(operation)
        open_until.append(event["ts"] + event["dur"])
