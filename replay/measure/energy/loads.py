"""Work that keeps a device busy: one call again and again, in CUDA graphs or one by one."""

from __future__ import annotations

import collections
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay.measure import loops
from kerneldb.replay.measure.energy.steps import Load
from kerneldb.replay.wire.plan import Item

SLICE_S: Final = 0.003
PLAUSIBLE: Final = 3.0
TIMED_REPLAYS: Final = 3
MOST_QUEUED: Final = 1000


@dataclass(slots=True)
class Prepared:
    """A call made ready: its load, the load of its upkeep alone (None: none), and what it needs per call.

    `flushes` and `upkeeps` count how often the cache is read full, and values are put back, per call. `cold_bytes` come
    from memory in a call, and from the cache in the loop. `padding_ns` is how long the device waits after each call,
    with the gap behind.
    """

    load: Load
    upkeep: Load | None = None
    flushes: float = 0.0
    upkeeps: float = 0.0
    cold_bytes: int = 0
    padding_ns: float = 0.0
    release: Callable[[], None] = field(default=lambda: None)

    def close(self) -> None:
        """Give everything back."""
        self.load.close()
        if self.upkeep is not None:
            self.upkeep.close()
        self.release()


class Loads:
    """Makes the loads of a device. A device without gaps of its own needs no more than calls and an anchor."""

    flush_bytes: int = 0

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, padding_ns: float = 0.0) -> Prepared:
        """The `attempt`-th call of an item, which takes about `call_ns`; without `capture`, not in a CUDA graph.

        In a graph the device waits for about `padding_ns` after each call. Raises UnresolvedCallError, RuntimeError and
        what operators raise.
        """
        raise NotImplementedError

    def anchor(self) -> Load:
        """The same matrix product every time."""
        raise NotImplementedError

    def empty(self) -> Load | None:
        """The smallest kernels, one behind the other; None where the device has none."""
        return None

    def flush(self) -> Load | None:
        """Reading the cache full, again and again; None where no call needs it."""
        return None

    def padding(self) -> Load | None:
        """Waiting, again and again; None where no call needs it."""
        return None

    def empty_ns(self) -> float | None:
        """How long one of the smallest kernels itself takes, as the profiler sees it; None where that is not known."""
        return None

    def check(self) -> None:
        """Wait for the device. Raises BrokenDeviceError where its context is broken."""

    def release(self) -> None:
        """Give memory that is held for reuse back."""


class _Queue(Load):
    """Runs in the order in which they were enqueued, with points of the device's time behind them.

    A run takes about `_run_s` seconds; on a CPU it has ended when it is enqueued.
    """

    _run_s: float
    _most_queued: float = math.inf
    _on_cpu = False

    def __init__(self) -> None:
        self._count = 0
        self._queued: collections.deque[tuple[int, Any]] = collections.deque()
        self._ended: tuple[int, Any] = (0, None)

    def begin(self) -> None:
        """Wait until the device is idle; marks count from here."""
        self._wait()
        self._queued.clear()
        self._count = self.dry = 0
        self._ended = (0, self._now())

    def top_up(self, ahead_s: float) -> bool:
        """Enqueue runs until there is enough to do, for a few milliseconds at most."""
        self._pop()
        if self._count and not self._queued and not self._on_cpu:
            self.dry += 1
        wanted = min(max(2, math.ceil(ahead_s / self._run_s)), self._most_queued)
        until = time.perf_counter() + SLICE_S
        while self._count - self._ended[0] < wanted:
            if time.perf_counter() > until:
                return False
            self._enqueue()
        return True

    def mark(self) -> tuple[int, Any]:
        """The number of runs that have ended, with the point in time behind the last one."""
        self._pop()
        return self._ended

    def close(self) -> None:
        """Wait."""
        self._wait()

    def _enqueue(self) -> None:
        """Enqueue one run or a few."""
        raise NotImplementedError

    def _note(self, runs: int) -> None:
        """Note that so many more runs are enqueued."""
        self._count += runs
        self._queued.append((self._count, self._now()))

    def _wait(self) -> None:
        if not self._on_cpu:
            import torch

            torch.cuda.synchronize()

    def _now(self) -> Any:
        """The point in time of the device behind all that is enqueued."""
        if self._on_cpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _pop(self) -> None:
        """Move on to the last point in time that has passed."""
        while self._queued and (self._on_cpu or self._queued[0][1].query()):
            self._ended = self._queued.popleft()


class GraphLoad(_Queue):
    """A CUDA graph of `calls` calls, replayed without pause."""

    kind = "graph"
    _most_queued = MOST_QUEUED

    def __init__(self, body: Callable[[], object], first: Callable[[], object], calls: int) -> None:
        super().__init__()
        self._calls = calls
        self._graph = loops.captured(body, first)
        self._graph.replay()  # the first replay uploads the graph
        self._run_s = self._shortest()

    @property
    def seconds(self) -> float:
        """How long a call takes on the device, as far as known."""
        return self._run_s / self._calls

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call, from events on the device."""
        replays = last[0] - first[0]
        replay_s = _apart_s(first[1], last[1]) / max(replays, 1)
        if replays < 1 or not 1 / PLAUSIBLE < replay_s / self._run_s < PLAUSIBLE:
            message = f"{replays} replays of {replay_s:g} s each, against {self._run_s:g} s alone"
            raise RuntimeError(message)
        return replay_s / self._calls

    def close(self) -> None:
        """Wait, and take the graph down."""
        super().close()
        self._graph.reset()

    def _enqueue(self) -> None:
        self._graph.replay()
        self._note(1)

    def _shortest(self) -> float:
        """Seconds of a replay: the shortest of a few, as a host that is late makes one longer."""
        marks = [self._now()]
        for _ in range(TIMED_REPLAYS):
            self._graph.replay()
            marks.append(self._now())
        marks[-1].synchronize()
        return max(min(_apart_s(a, b) for a, b in itertools.pairwise(marks)), 1e-6)

    def _pop(self) -> None:
        """Move on to the last event that has passed, and learn how long a replay takes where it is shorter than known.

        A queue is as deep as its replays are believed to be long: too long a belief, and it runs dry.
        """
        while self._queued and self._queued[0][1].query():
            (before, begun), self._ended = self._ended, self._queued.popleft()
            if before:
                self._run_s = max(min(self._run_s, _apart_s(begun, self._ended[1])), 1e-6)


class EagerLoad(_Queue):
    """Single calls, enqueued one by one; on a CPU they are done when they return."""

    kind = "eager"

    def __init__(self, turn: Callable[[], object], call_ns: float, *, on_cpu: bool) -> None:
        super().__init__()
        self._turn = turn
        self._run_s = max(call_ns, 1.0) / 1e9
        self._on_cpu = on_cpu

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call."""
        calls = last[0] - first[0]
        if calls < 1:
            message = "no call ended while it was measured"
            raise RuntimeError(message)
        return (last[1] - first[1] if self._on_cpu else _apart_s(first[1], last[1])) / calls

    def _enqueue(self) -> None:
        """A few calls with a point in time behind them."""
        calls = max(1, min(16, round(SLICE_S / 4 / self._run_s)))
        for _ in range(calls):
            self._turn()
        self._note(calls)
        self._pop()


class Deeper(Load):
    """A load that is kept queued `factor` times as far ahead."""

    def __init__(self, load: Load, factor: float) -> None:
        self._load = load
        self._factor = factor

    def top_up(self, ahead_s: float) -> bool:
        """Make sure that there is work for longer than asked."""
        return self._load.top_up(self._factor * ahead_s)


def graph_of(work: Callable[[], object], times: int) -> GraphLoad:
    """A graph of `work`, so many times."""
    return GraphLoad(repeated(work, times), work, times)


def repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    """`work`, so many times."""

    def body() -> None:
        for _ in range(times):
            work()

    return body


def _apart_s(first: Any, last: Any) -> float:
    """Seconds between two events of the device."""
    return float(first.elapsed_time(last)) / 1000
