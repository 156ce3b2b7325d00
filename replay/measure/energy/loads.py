"""Work that keeps a device busy: one call again and again, in CUDA graphs or one by one."""

from __future__ import annotations

import collections
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kerneldb.replay.measure import loops
from kerneldb.replay.measure.energy.edges import Rest
from kerneldb.replay.wire.plan import Item

SLICE_S: Final = 0.003
PLAUSIBLE: Final = 3.0
TIMED_REPLAYS: Final = 3
MOST_QUEUED: Final = 1000


class Load(Protocol):
    """Work on a device that can be kept queued, and timed on the device's own clock."""

    kind: str
    dry: int

    def begin(self) -> None:
        """Wait until the device is idle, and forget what was queued before."""
        ...

    def top_up(self, ahead_s: float) -> bool:
        """Make sure that there is work for the next `ahead_s` seconds; false where it has to be asked again for that.

        `dry` counts how often there was none left.
        """
        ...

    def mark(self) -> Any:
        """The last run that has ended: a point in the device's time."""
        ...

    def per_call(self, first: Any, last: Any) -> float:
        """Seconds per call between two marks. Raises RuntimeError where they do not tell."""
        ...

    def close(self) -> None:
        """Wait for the device and give its memory back."""
        ...


@dataclass(slots=True)
class Prepared:
    """A call made ready: its load, the load of its upkeep alone (None: none), and what it needs per call.

    `flushes` and `upkeeps` count how often the cache is read full, and values are put back, per call. `cold_bytes` come
    from memory in a call, and from the cache in the loop. `pad_ns` is how long the device waits after each call, with
    the gap behind.
    """

    load: Load
    upkeep: Load | None = None
    flushes: float = 0.0
    upkeeps: float = 0.0
    cold_bytes: int = 0
    pad_ns: float = 0.0
    release: Callable[[], None] = field(default=lambda: None)

    def close(self) -> None:
        """Give everything back."""
        self.load.close()
        if self.upkeep is not None:
            self.upkeep.close()
        self.release()


class Loads(Protocol):
    """Makes the loads of a device."""

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, pad_ns: float = 0.0) -> Prepared:
        """The `attempt`-th call of an item, which takes about `call_ns`; without `capture`, not in a CUDA graph.

        In a graph the device waits for about `pad_ns` after each call. Raises UnresolvedCallError, RuntimeError and
        what operators raise.
        """
        ...

    flush_bytes: int

    def empty(self) -> Load | None:
        """The smallest kernels, one behind the other; None where the device has none."""
        ...

    def flush(self) -> Load | None:
        """Reading the cache full, again and again; None where no call needs it."""
        ...

    def pad(self) -> Load | None:
        """Waiting, again and again; None where no call needs it."""
        ...

    def empty_ns(self) -> float | None:
        """How long one of the smallest kernels itself takes, as the profiler sees it; None where that is not known."""
        ...

    def anchor(self) -> Load:
        """The same matrix product every time."""
        ...

    def check(self) -> None:
        """Wait for the device. Raises BrokenDeviceError where its context is broken."""
        ...

    def release(self) -> None:
        """Give memory that is held for reuse back."""
        ...


class GraphLoad:
    """A CUDA graph of `calls` calls, replayed without pause."""

    kind = "graph"

    def __init__(self, body: Callable[[], object], first: Callable[[], object], calls: int) -> None:
        import torch

        self.dry = 0
        self._torch = torch
        self._calls = calls
        self._graph = loops.captured(body, first)
        self._graph.replay()  # the first replay uploads the graph
        self._replay_s = self._shortest()
        self._count = 0
        self._queued: collections.deque[tuple[int, Any]] = collections.deque()
        self._ended: tuple[int, Any] = (0, self._recorded())

    @property
    def seconds(self) -> float:
        """How long a call takes on the device, as far as known."""
        return self._replay_s / self._calls

    def begin(self) -> None:
        """Wait until the device is idle; marks count from here."""
        self._torch.cuda.synchronize()
        self._queued.clear()
        self._count = self.dry = 0
        self._ended = (0, self._recorded())

    def top_up(self, ahead_s: float) -> bool:
        """Enqueue replays until there is enough to do."""
        self._pop()
        wanted = min(max(2, math.ceil(ahead_s / self._replay_s)), MOST_QUEUED)
        if self._count and not self._queued:
            self.dry += 1
        until = time.perf_counter() + SLICE_S
        while len(self._queued) < wanted:
            if time.perf_counter() > until:
                return False
            self._graph.replay()
            self._count += 1
            self._queued.append((self._count, self._recorded()))
        return True

    def mark(self) -> tuple[int, Any]:
        """The number of replays that have ended, with the event behind the last one."""
        self._pop()
        return self._ended

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call, from events on the device."""
        replays = last[0] - first[0]
        replay_s = float(first[1].elapsed_time(last[1])) / 1000 / max(replays, 1)
        if replays < 1 or not 1 / PLAUSIBLE < replay_s / self._replay_s < PLAUSIBLE:
            message = f"{replays} replays of {replay_s:g} s each, against {self._replay_s:g} s alone"
            raise RuntimeError(message)
        return replay_s / self._calls

    def close(self) -> None:
        """Wait, and take the graph down."""
        self._torch.cuda.synchronize()
        self._graph.reset()

    def _recorded(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _shortest(self) -> float:
        """Seconds of a replay: the shortest of a few, as a host that is late makes one longer."""
        marks = [self._recorded()]
        for _ in range(TIMED_REPLAYS):
            self._graph.replay()
            marks.append(self._recorded())
        marks[-1].synchronize()
        taken = [float(a.elapsed_time(b)) / 1000 for a, b in itertools.pairwise(marks)]
        return max(min(taken), 1e-6)

    def _pop(self) -> None:
        """Move on to the last event that has passed, and learn how long a replay takes where it is shorter than known.

        A queue is as deep as its replays are believed to be long: too long a belief, and it runs dry.
        """
        while self._queued and self._queued[0][1].query():
            (before, begun), self._ended = self._ended, self._queued.popleft()
            if before:
                self._replay_s = max(min(self._replay_s, float(begun.elapsed_time(self._ended[1])) / 1000), 1e-6)


class Deeper:
    """A load that is kept queued `factor` times as far ahead."""

    def __init__(self, load: Load, factor: float) -> None:
        self._load = load
        self._factor = factor

    def top_up(self, ahead_s: float) -> bool:
        """Make sure that there is work for longer than asked."""
        return self._load.top_up(self._factor * ahead_s)


class EagerLoad:
    """Single calls, enqueued one by one; on a CPU they are done when they return."""

    kind = "eager"

    def __init__(self, turn: Callable[[], object], call_ns: float, *, on_cpu: bool) -> None:
        self.dry = 0
        self._turn = turn
        self._call_s = max(call_ns, 1.0) / 1e9
        self._count = 0
        self._on_cpu = on_cpu
        self._queued: collections.deque[tuple[int, Any]] = collections.deque()
        self._ended: tuple[int, Any] = (0, None)

    def begin(self) -> None:
        """Wait until the device is idle; marks count from here."""
        self.close()
        self._queued.clear()
        self._count = self.dry = 0
        self._ended = (0, self._now())

    def top_up(self, ahead_s: float) -> bool:
        """Make calls for a few milliseconds, or until there is enough to do."""
        wanted = max(2, math.ceil(ahead_s / self._call_s))
        until = time.perf_counter() + SLICE_S
        self._pop()
        if self._count and not self._queued and not self._on_cpu:
            self.dry += 1
        while self._count - self._ended[0] < wanted and time.perf_counter() < until:
            self._batch()
            self._pop()
        return self._count - self._ended[0] >= wanted

    def mark(self) -> tuple[int, Any]:
        """The number of calls that have ended, and when."""
        self._pop()
        return self._ended

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call."""
        calls = last[0] - first[0]
        if calls < 1:
            message = "no call ended while it was measured"
            raise RuntimeError(message)
        if self._on_cpu:
            return float(last[1] - first[1]) / calls
        return float(first[1].elapsed_time(last[1])) / 1000 / calls

    def close(self) -> None:
        """Wait."""
        if not self._on_cpu:
            import torch

            torch.cuda.synchronize()

    def _batch(self) -> None:
        """A few calls with a point in time behind them."""
        calls = max(1, min(16, round(SLICE_S / 4 / self._call_s)))
        for _ in range(calls):
            self._turn()
        self._count += calls
        self._queued.append((self._count, self._now()))

    def _now(self) -> Any:
        """A point in time of the device."""
        if self._on_cpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _pop(self) -> None:
        while self._queued and (self._on_cpu or self._queued[0][1].query()):
            self._ended = self._queued.popleft()


class RestLoad(Rest):
    """An idle device, as a load."""

    kind = "rest"
    dry = 0

    def begin(self) -> None:
        """Nothing runs."""

    def mark(self) -> None:
        """Nothing runs."""

    def per_call(self, first: Any, last: Any) -> float:
        """Nothing runs."""
        del first, last
        return 0.0

    def close(self) -> None:
        """Nothing to give back."""
