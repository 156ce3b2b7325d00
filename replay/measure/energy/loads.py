"""Work that keeps a device busy: one call again and again, in CUDA graphs or one by one.

The state of the cache is that of the timing (`kerneldb.replay.measure.inputs`): cold inputs take turns in a ring larger
than three times the L2, all others stay where the call left them. A graph goes once or several times around the ring,
so that the ring does not begin anew before its end. Where copies of small inputs cannot fill the ring, the cache is
read full once per round, and where a call changes its inputs, they are put back once per round: both are upkeep, whose
energy is measured alone and taken off. So is idle padding, which lets the device wait between calls and touches
nothing. Of cold inputs of at most 64 KB a flush would leave more noise than it is worth: they are left in the cache,
and what it costs to bring so many bytes from memory is added.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay import routes
from kerneldb.replay.errors import FAILURES, Reason, UnresolvedCallError
from kerneldb.replay.measure import loops
from kerneldb.replay.measure.energy.steps import Load
from kerneldb.replay.measure.inputs import OPTIMIZERS, RING_FACTOR, Flush, Sets, ring_copies, roles, written
from kerneldb.replay.options import Options
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.routes.base import Call
from kerneldb.replay.wire.plan import Item

SLICE_S: Final = 0.003
PLAUSIBLE: Final = 3.0
GRAPH_NS: Final = 4_000_000
MOST_CALLS: Final = 1024
MOST_ROUNDS: Final = 64
COLD_MATTERS: Final = 0.05
LITTLE_COLD_BYTES: Final = 1 << 16
OVERWRITTEN: Final = frozenset({"copy_", "fill_", "zero_", "random_", "normal_", "uniform_"})
ANCHOR_ROWS: Final = 1024
ANCHOR_INNER: Final = 4096
CPU_ANCHOR_SIZE: Final = 256
CPU_CACHE_BYTES: Final = 32 << 20
PADDING_LEAST_NS: Final = 20_000.0
PADDING_REFERENCE_NS: Final = 100_000.0
PADDING_CYCLES: Final = (20_000, 200_000)


@dataclass(slots=True)
class Prepared:
    """A call made ready: its load, the load of its upkeep alone (None: none), and what it needs per call.

    `flushes` and `upkeeps` count how often the cache is read full, and values are put back, per call. `cold_bytes` come
    from memory in a call, and from the cache in the loop. `padding_ns` is how long the device waits after each call,
    including the gap.
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
    """Makes the loads of a device; by itself those of a CPU, which has no gaps of its own, and is idle or at work."""

    flush_bytes: int = 0

    def __init__(self, options: Options) -> None:
        self._options = options

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, padding_ns: float = 0.0) -> Prepared:
        """The `attempt`-th call of an item, which takes about `call_ns`; without `capture`, not in a CUDA graph.

        In a graph the device waits for about `padding_ns` after each call. Raises UnresolvedCallError, RuntimeError and
        what operators raise.
        """
        del capture, padding_ns
        call = built(item, attempt, "cpu")
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, CPU_CACHE_BYTES)
        sets = Sets(call, given, runs=16, l2_bytes=CPU_CACHE_BYTES, memory_bytes=CPU_CACHE_BYTES * 8)
        return Prepared(EagerLoad(_next_call(call, sets), call_ns, on_cpu=True), release=sets.reset)

    def anchor(self) -> Load:
        """The same matrix product every time."""
        import torch

        a, b = (torch.randn(CPU_ANCHOR_SIZE, CPU_ANCHOR_SIZE) for _ in range(2))
        return EagerLoad(lambda: torch.mm(a, b), 1e6, on_cpu=True)

    def empty(self) -> Load | None:
        """The smallest kernels, one after the other; None where the device has none."""
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
    """Runs in the order in which they were enqueued, each followed by an event on the device.

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
        """The number of runs that have ended, with the point in time after the last one."""
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
        """The point in time on the device after all that is enqueued."""
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
    _most_queued = 1000

    def __init__(self, body: Callable[[], object], first: Callable[[], object], calls: int) -> None:
        super().__init__()
        self._calls = calls
        self._graph = loops.captured(body, first)
        self._graph.replay()  # the first replay uploads the graph
        marks = [self._now()]
        for _ in range(3):
            self._graph.replay()
            marks.append(self._now())
        marks[-1].synchronize()
        self._run_s = max(min(_apart_s(a, b) for a, b in itertools.pairwise(marks)), 1e-6)

    @property
    def seconds(self) -> float:
        """How long a call takes on the device, as far as known."""
        return self._run_s / self._calls

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call, from events on the device."""
        replays = last[0] - first[0]
        replay_s = _apart_s(first[1], last[1]) / max(replays, 1)
        if replays < 1 or not 1 / PLAUSIBLE < replay_s / self._run_s < PLAUSIBLE:
            raise RuntimeError(f"{replays} replays of {replay_s:g} s each, against {self._run_s:g} s alone")
        return replay_s / self._calls

    def close(self) -> None:
        """Wait, and take the graph down."""
        super().close()
        self._graph.reset()

    def _enqueue(self) -> None:
        self._graph.replay()
        self._note(1)

    def _pop(self) -> None:
        """Move on to the last event that has passed, and learn how long a replay takes where it is shorter than known.

        A queue is as deep as its replays are accepted to be long: too long a belief, and it runs dry.
        """
        while self._queued and self._queued[0][1].query():
            (before, begun), self._ended = self._ended, self._queued.popleft()
            if before:
                self._run_s = max(min(self._run_s, _apart_s(begun, self._ended[1])), 1e-6)


class EagerLoad(_Queue):
    """Single calls, enqueued one by one; on a CPU they are done when they return."""

    kind = "eager"

    def __init__(self, run_once: Callable[[], object], call_ns: float, *, on_cpu: bool) -> None:
        super().__init__()
        self._run = run_once
        self._run_s = max(call_ns, 1.0) / 1e9
        self._on_cpu = on_cpu

    def per_call(self, first: tuple[int, Any], last: tuple[int, Any]) -> float:
        """Seconds per call."""
        calls = last[0] - first[0]
        if calls < 1:
            raise RuntimeError("no call ended while it was measured")
        return (last[1] - first[1] if self._on_cpu else _apart_s(first[1], last[1])) / calls

    def _enqueue(self) -> None:
        """A few calls, then a point in time."""
        calls = max(1, min(16, round(SLICE_S / 4 / self._run_s)))
        for _ in range(calls):
            self._run()
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


def built(item: Item, attempt: int, device: str) -> Call:
    """The `attempt`-th call of an item. Raises UnresolvedCallError where there is none."""
    for number, call in enumerate(routes.find(item.route).prepare(item, device)):
        if number == attempt:
            return call
    raise UnresolvedCallError(Reason.NO_OVERLOAD, "the call that was replayed cannot be built again")


@dataclass(frozen=True, slots=True)
class Round:
    """How a graph is made up: `rounds` times upkeep, then `calls` calls.

    `warm` says that cold inputs are found in the cache all the same: they are too small to be worth a flush. Padding
    follows every `padding_every` calls (0: there is none), `paddings` times in all.
    """

    calls: int
    rounds: int
    flush: bool = False
    restore: bool = False
    warm: bool = False
    padding_every: int = 0
    paddings: int = 0


def plan_round(call_ns: float, sets: Sets, inputs_bytes: int, *, restore: bool, padding_ns: float = 0.0) -> Round:
    """The make-up of a graph of about 4 ms, of a call whose inputs have `inputs_bytes` together, and idle padding."""
    call_ns += padding_ns
    little = sets.cold_bytes <= LITTLE_COLD_BYTES
    calls = loops.calls_per_graph(call_ns, loops.MOST_CALLS_IN_PLACE if restore else MOST_CALLS, GRAPH_NS)
    flush = not sets.complete and not little and sets.cold_bytes >= COLD_MATTERS * inputs_bytes
    calls = max(1, min(calls, sets.copies)) if flush else sets.copies * math.ceil(calls / sets.copies)
    left = GRAPH_NS / max(call_ns * calls, 1.0)
    rounds = max(1, min(MOST_ROUNDS, round(left), MOST_CALLS // calls)) if flush or restore else 1
    every = min(math.ceil(PADDING_LEAST_NS / padding_ns), calls * rounds) if padding_ns else 0
    paddings = calls * rounds // every if every else 0
    return Round(calls, rounds, flush, restore, not sets.complete and little, every, paddings)


def drifts(item: Item, call: Call) -> bool:
    """Whether values drift when the call runs again and again: it changes an input, and does not just overwrite it."""
    operator = "" if item.spec is None else short_name(item.spec.call.op)
    return bool(written(call)) and operator not in OVERWRITTEN and not OPTIMIZERS.match(operator)


class GpuLoads(Loads):
    """Loads on a GPU."""

    def __init__(self, options: Options) -> None:
        import torch

        from kerneldb.replay.worker.executor import l2_bytes

        super().__init__(options)
        self._torch = torch
        self._l2 = l2_bytes(torch.cuda.get_device_properties(torch.cuda.current_device()))
        self._flush = Flush(options.device, self._l2)
        self.flush_bytes = RING_FACTOR * self._l2

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, padding_ns: float = 0.0) -> Prepared:
        """A graph of the call, around the ring of its cold inputs; single calls where there is to be none."""
        call = built(item, attempt, self._options.device)
        call.call()
        sets = self._sets(item, call, call_ns)
        run_once = _next_call(call, sets)
        if not capture:
            run_once = _every(1, run_once, self._waiting(padding_ns)) if padding_ns else run_once
            load = EagerLoad(run_once, call_ns + padding_ns, on_cpu=False)
            return Prepared(load, padding_ns=padding_ns, release=sets.reset)
        inputs = sum(one.bytes for one in call.inputs)
        shape = plan_round(call_ns, sets, inputs, restore=drifts(item, call), padding_ns=padding_ns)
        calls = shape.calls * shape.rounds
        if shape.padding_every:
            run_once = _every(shape.padding_every, run_once, self._waiting(padding_ns * calls / shape.paddings))

        def one_round() -> None:
            if shape.restore:
                sets.upkeep()
            if shape.flush:
                self._flush()
            for _ in range(shape.calls):
                run_once()

        graph = GraphLoad(repeated(one_round, shape.rounds), call.call, calls)
        upkeep = graph_of(sets.upkeep, shape.rounds) if shape.restore else None
        cold = sets.cold_bytes if shape.warm else 0
        once = 1 / shape.calls
        return Prepared(graph, upkeep, once * shape.flush, once * shape.restore, cold, padding_ns, sets.reset)

    def empty(self) -> Load:
        """A graph of kernels that return at once.

        It is asked for first of all, so that waiting is calibrated before a load may have brought the clock down.
        """
        _ = self._waiting_ns
        return graph_of(self._sleeping(0), 4096)

    def flush(self) -> Load:
        """A graph of reading the cache full."""
        return graph_of(self._flush, 16)

    def padding(self) -> Load:
        """A graph of kernels that wait."""
        return graph_of(self._waiting(PADDING_REFERENCE_NS), round(GRAPH_NS / PADDING_REFERENCE_NS))

    def empty_ns(self) -> float | None:
        """Median duration of kernels that return at once, in a profiler session; None where that fails."""
        from kerneldb.replay.worker.profiling import Session, marker

        try:
            with Session(gpu=True) as session:
                with marker("empty"):
                    repeated(self._sleeping(0), 200)()
                self._torch.cuda.synchronize()
        except (*FAILURES, OSError):
            return None
        seen = [one.duration_ns for marked in session.seen.get("empty", []) for one in marked.activities]
        return statistics.median(seen) if seen else None

    def anchor(self) -> Load:
        """A product of single-precision matrices that leaves part of the device idle: far below the board's limit."""
        torch, device = self._torch, self._options.device
        made = torch.Generator(device=device).manual_seed(1)
        a = torch.randn(ANCHOR_ROWS, ANCHOR_INNER, device=device, generator=made)
        b = torch.randn(ANCHOR_INNER, ANCHOR_ROWS, device=device, generator=made)
        out = torch.empty(ANCHOR_ROWS, ANCHOR_ROWS, device=device)
        return graph_of(lambda: torch.mm(a, b, out=out), 8)

    def check(self) -> None:
        """Wait for the device; errors that survive a failed call surface here."""
        from kerneldb.replay.worker.executor import BrokenDeviceError

        try:
            self._torch.cuda.synchronize()
        except RuntimeError as error:
            raise BrokenDeviceError(str(error).splitlines()[0]) from error

    def release(self) -> None:
        """Empty PyTorch's cache of free blocks."""
        self._torch.cuda.empty_cache()

    def _sleeping(self, cycles: int) -> Callable[[], None]:
        """A kernel that waits for so many cycles."""
        return lambda: self._torch.cuda._sleep(cycles)

    def _waiting(self, wanted_ns: float) -> Callable[[], None]:
        """A kernel that waits for as long, with the gap before the next."""
        first_ns, cycle_ns = self._waiting_ns
        return self._sleeping(max(0, round((wanted_ns - first_ns) / cycle_ns)))

    @functools.cached_property
    def _waiting_ns(self) -> tuple[float, float]:
        """Nanoseconds of a waiting kernel with its gap, beside its cycles; and those of a cycle."""
        taken: list[float] = []
        for cycles in PADDING_CYCLES:
            with closing(graph_of(self._sleeping(cycles), 16)) as load:
                taken.append(load.seconds * 1e9)
        cycle_ns = max((taken[1] - taken[0]) / (PADDING_CYCLES[1] - PADDING_CYCLES[0]), 0.1)
        return taken[0] - cycle_ns * PADDING_CYCLES[0], cycle_ns

    def _sets(self, item: Item, call: Call, call_ns: float) -> Sets:
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, self._l2)
        cold = sum(one.bytes for one, role in zip(call.inputs, given, strict=True) if role == "cold")
        calls = loops.calls_per_graph(call_ns, MOST_CALLS, GRAPH_NS)
        copies = ring_copies(cold, self._l2)
        runs = max(calls, copies) if copies <= MOST_CALLS else calls
        if drifts(item, call):
            runs = min(runs, loops.MOST_CALLS_IN_PLACE)
        memory = int(0.25 * self._torch.cuda.mem_get_info()[0])
        return Sets(call, given, runs=runs, l2_bytes=self._l2, memory_bytes=memory)


def _next_call(call: Call, sets: Sets) -> Callable[[], None]:
    def run_once() -> None:
        sets.advance()
        call.call()

    return run_once


def _every(times: int, work: Callable[[], object], further: Callable[[], object]) -> Callable[[], None]:
    """`work`, with `further` after every `times`-th."""
    count = itertools.count(1)

    def both() -> None:
        work()
        if next(count) % times == 0:
            further()

    return both
