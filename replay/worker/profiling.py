"""What a profiler saw of replayed calls: GPU activities and operators, grouped by the marker around each call.

Reads the Chrome trace that `torch.profiler` exports. A GPU activity belongs to the marker in which its runtime call was
made: activity → `correlation` → runtime event → marker on the same thread. Time on the GPU plays no part in it.

Most of what a session exports is of no interest: what brings inputs into their cache state between two marked calls,
and an arrow for every launch. So events are parsed only where they are asked for. Kineto prints each on lines of its
own, between `  {` and `  }` (libkineto, `output_json.cpp`; seen with torch 2.11 and 2.13), so that an event is found,
and its category read, without parsing it. A trace that is laid out in any other way is parsed as a whole.

A `Session` profiles many calls, each inside a marker of its own.
"""

from __future__ import annotations

import bisect
import gc
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kerneldb.gpus import hip
from kerneldb.replay.wire.results import Activity

ON_GPU: Final = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
RUNTIME: Final = frozenset({"cuda_runtime", "cuda_driver"})
MARKER_PREFIX: Final = "kerneldb replay "
FIRST: Final = re.compile(rb'"traceEvents":\s*\[\s*\{\n')
BETWEEN: Final = b"\n  },\n  {\n"
LAST: Final = re.compile(rb"\n  \}\s*\]")
COMPLETE: Final = re.compile(rb'"ph":\s*"X"')
HEAD: Final = re.compile(rb'\s*"ph":\s*"X",\s*"cat":\s*"(\w+)",')
CORRELATION: Final = re.compile(rb'"correlation":\s*(\d+)')

Event = Mapping[str, Any]


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


class _Markers:
    """Finds the marker around a point in time of a thread; `by_label` are all, in time order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.by_label: dict[str, list[Marked]] = {}
        self._starts: dict[Any, list[float]] = defaultdict(list)
        self._spans: dict[Any, list[tuple[float, Marked]]] = defaultdict(list)
        for event in sorted(events, key=lambda one: float(one["ts"])):
            marked = Marked()
            self.by_label.setdefault(event["name"], []).append(marked)
            self._starts[event["tid"]].append(event["ts"])
            self._spans[event["tid"]].append((event["ts"] + event["dur"], marked))

    def around(self, event: Event) -> Marked | None:
        thread = event["tid"]
        place = bisect.bisect_right(self._starts.get(thread, ()), event["ts"]) - 1
        if place < 0:
            return None
        end, marked = self._spans[thread][place]
        return marked if event["ts"] <= end else None


def read(path: Path, *, operators: bool = True) -> dict[str, list[Marked]]:
    """The marked calls of the exported trace at `path`, by marker name, in time order; `operators` with theirs."""
    collecting = gc.isenabled()
    gc.disable()  # parsing makes millions of objects and no garbage: looking for some takes longer than the parsing
    try:
        return _marked(Text(path.read_bytes()), operators)
    except ValueError:
        return _marked(whole(path), operators)
    finally:
        if collecting:
            gc.enable()


def in_order(path: Path) -> list[Activity]:
    """What ran on the GPU in the exported trace at `path`, in the order in which it began."""
    events = whole(path)
    found = [(event["ts"], _activity(kind, event, "")) for cat, kind in ON_GPU.items() for event in events.of(cat)]
    return [activity for _, activity in sorted(found, key=lambda one: one[0])]


def _marked(events: Events | Text, operators: bool) -> dict[str, list[Marked]]:
    annotations = events.of("user_annotation")
    markers = _Markers(event for event in annotations if str(event["name"]).startswith(MARKER_PREFIX))
    calls: dict[int, tuple[float, Marked, str]] = {}
    for event in (event for category in RUNTIME for event in events.of(category)):
        marked = markers.around(event)
        if marked is None:
            continue
        if event["name"] in {"cudaMemcpy", "hipMemcpy"} or event["name"].endswith("Synchronize"):
            marked.waits = True
        correlation = _correlation(event)
        if correlation is not None:
            calls[correlation] = event["ts"], marked, str(event["name"])
    placed: list[tuple[float, Marked, Activity]] = []
    for category, kind in ON_GPU.items():
        for event in events.of(category, calls):
            started, marked, call = calls[event["args"]["correlation"]]
            placed.append((started, marked, _activity(kind, event, call)))
    for _, marked, activity in sorted(placed, key=lambda one: one[0]):
        marked.activities.append(activity)
    if operators:
        _place_operations(events.of("cpu_op"), markers)
    return markers.by_label


def _activity(kind: str, event: Event, call: str) -> Activity:
    args = event.get("args", {})
    grid, block = _triple(args.get("grid")), _triple(args.get("block"))
    if hip.grid_unit(call) == hip.WORK_ITEMS:
        grid = hip.in_blocks(grid or (), block or ())
    return Activity(
        kind=kind,
        name=str(event["name"]),
        duration_ns=round(float(event["dur"]) * 1000),
        grid=grid,
        block=block,
        shared_bytes=args.get("shared memory"),
        bytes=args.get("bytes"),
    )


def _triple(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) else None


def _place_operations(events: Iterable[Event], markers: _Markers) -> None:
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


class Events:
    """Parsed complete events (`ph` X), by category."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_category: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if event.get("ph") == "X":
                self._by_category[event.get("cat", "")].append(event)

    def of(self, category: str, correlations: Container[int] | None = None) -> list[Event]:
        """Those of a category; with `correlations`, only those that have one of these."""
        found = self._by_category.get(category, [])
        return found if correlations is None else [one for one in found if _correlation(one) in correlations]


class Text:
    """The same over the text of a trace. It and `of` raise ValueError where that is not laid out as Kineto's are."""

    def __init__(self, text: bytes) -> None:
        first = FIRST.search(text)
        ends = text.rstrip().endswith(b"}") and LAST.search(text, max(text.rfind(BETWEEN), 0))
        if first is None or not ends:
            raise ValueError("no events on lines of their own, or no end of them")
        self._by_category: dict[bytes, list[bytes]] = defaultdict(list)
        for piece in text[first.end() :].split(BETWEEN):
            head = HEAD.match(piece)
            if head is not None:
                self._by_category[head[1]].append(piece)
            elif COMPLETE.search(piece):
                raise ValueError("an event begins in another way")

    def of(self, category: str, correlations: Container[int] | None = None) -> list[Event]:
        """As `Events.of`."""
        pieces: Iterable[bytes] = self._by_category.get(category.encode(), [])
        if correlations is not None:
            pieces = (piece for piece in pieces if _number_in(piece) in correlations)
        joined = b"},{".join(pieces).decode(errors="replace")
        events: list[Event] = json.loads(f"[{{{joined}}}]") if joined else []
        return events


def _correlation(event: Event) -> int | None:
    found: int | None = event.get("args", {}).get("correlation")
    return found


def _number_in(piece: bytes) -> int | None:
    """The correlation that the text of an event says."""
    found = CORRELATION.findall(piece)  # the last one: a name may contain anything, and comes before the arguments
    return int(found[-1]) if found else None


def whole(path: Path) -> Events:
    """All events of the trace at `path`."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return Events(json.load(file)["traceEvents"])


class Session:
    """Profiles the block it is opened for; afterwards `seen` has the marked calls, by label, in time order.

    On a GPU it records kernels, copies and runtime calls; without one the operators with their shapes. Everything is
    read from one exported trace: the same text, names and launch fields as in a recorded one. With `ordered`, all that
    ran on the GPU is in `activities` instead, in the order in which it began: what graphs launch has no calls.
    """

    def __init__(self, *, gpu: bool, ordered: bool = False) -> None:
        # `torch.profiler.profile` is the same, and imports torch._inductor (4 s with torch 2.11) to read one setting.
        from torch.autograd.profiler import profile

        self._gpu = gpu
        self._profile: Any = profile(use_device="cuda" if gpu else None, record_shapes=not gpu, use_kineto=True)
        self._ordered = ordered
        self.seen: dict[str, list[Marked]] = {}
        self.activities: list[Activity] = []

    def __enter__(self) -> Self:
        self._profile.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._profile.__exit__(*raised)
        if raised == (None, None, None):
            self.seen = self._read()
        self._profile = None

    def _read(self) -> dict[str, list[Marked]]:
        with tempfile.TemporaryDirectory(prefix="kerneldb-replay-") as folder:
            path = Path(folder, "trace.json")
            self._profile.export_chrome_trace(str(path))
            if self._ordered:
                self.activities = in_order(path)
                return {}
            found = read(path, operators=not self._gpu)
        return {label.removeprefix(MARKER_PREFIX): marked for label, marked in found.items()}


def marker(label: str) -> Any:
    """A context for one call; `Session.seen` lists it under `label`."""
    from torch.autograd.profiler import record_function

    return record_function(f"{MARKER_PREFIX}{label}")
