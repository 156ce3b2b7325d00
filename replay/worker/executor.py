"""Where calls run: `GpuExecutor` under CUDA or ROCm, `Executor` without a GPU. One engine drives either.

A call is rehearsed inside a profiler session (marked, so that its kernels are known from all others), then judged by
what the session saw, then timed on its own.

Between the timed runs of a call other kernels run (`CacheDisturber`). In a model a kernel follows many others, whose
code and constants fill the instruction caches of the multiprocessors. Run again and again alone, it finds its own code
there and is faster: 0.4 to 2.8 % of a model's GPU time on an H200. A dozen small kernels of other kinds before each run
take that away; seven do there, four do not, and more than a dozen change nothing
(results/2026-11-22-h200-interlude). They touch a few kilobytes, so the L2 stays as it is.

On a GPU they are one CUDA graph: launched one by one they would take a millisecond of the host before each run, and
fill nine tenths of what the profiler writes.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay import routes
from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.facts import Monitor
from kerneldb.replay.measure import loops
from kerneldb.replay.measure.inputs import GROWING, Flush, Layouts, Sets, roles, written
from kerneldb.replay.measure.loops import smallest_sample, spread
from kerneldb.replay.options import Options
from kerneldb.replay.routes import grades
from kerneldb.replay.routes.base import Call, Seen
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import OK, Activity, CallResult, DeviceState, Grade, KernelResult, LoopCost, Spread
from kerneldb.replay.worker.profiling import Marked, Session, marker

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


CPU_CACHE_BYTES: Final = 32 << 20
CPU_ROOM_BYTES: Final = 2 << 30
SIZE: Final = 64


class BrokenDeviceError(Exception):
    """The device context is unusable, and with it this process: an illegal access, or a failed assertion on the GPU."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Times of a call outside of the profiler."""

    time: Spread | None = None
    loop: LoopCost | None = None
    note: str | None = None
    state: DeviceState | None = None


@dataclass(frozen=True, slots=True)
class Ring:
    """The cold inputs of a rehearsal: their bytes, and how many copies of them took turns."""

    cold_bytes: int = 0
    copies: int = 1


class Executor:
    """What the engine needs of a device; by itself it runs calls on the CPU.

    There, the same operators are compared instead of the same kernels, and wall time takes the place of GPU time.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._held = 0

    def session(self) -> Session:
        """A profiler session for rehearsals; once it is closed, `seen` has the marked calls by label, in time order."""
        self._held = 0
        return Session(gpu=False)

    def room(self) -> bool:
        """Whether there is memory for the inputs of further calls: less than 2 GiB of inputs are held."""
        return self._held < CPU_ROOM_BYTES

    def rehearse(self, call: Call, item: Item, label: str, runs: int) -> Ring:
        """Run a call `runs` times, marked; once on a CPU. Raises UnresolvedCallError where it fails."""
        del item, runs
        self._held += sum(one.bytes for one in call.inputs)
        with marker(label):
            call.call()
        return Ring()

    def judge(self, item: Item, call: Call, attempt: int, marked: Sequence[Marked]) -> Verdict:
        """What came out of a rehearsal, as the route compares it."""
        seen = Seen(operations=marked[0].operations if marked else (), on_cpu=True)
        match = routes.verify(item, call, seen)
        return Verdict(attempt, match, call.overload, tuple(call.notes))

    def measure(self, call: Call, item: Item, verdict: Verdict) -> Timed:
        """Time a judged call without the profiler."""
        runs, warmup = self._options.runs, self._options.warmup
        given = roles(item, call.inputs, self._options.cache, CPU_CACHE_BYTES)
        sets = Sets(call, given, runs=runs + warmup, l2_bytes=CPU_CACHE_BYTES, memory_bytes=CPU_ROOM_BYTES)
        verdict.cold_bytes, verdict.copies = sets.cold_bytes, sets.copies
        return Timed(loops.wall_clock(call, sets, warmup=warmup, fewest=runs))

    def check(self) -> None:
        """Wait for the device. Raises BrokenDeviceError where an earlier call has broken its context."""

    def release(self) -> None:
        """Give memory that is held for reuse back to the device."""

    def state(self) -> DeviceState | None:
        """Clocks, temperature and power now; None where they are not read."""
        return None


class GpuExecutor(Executor):
    """Calls on a GPU: kernels attributed and timed by CUPTI (roctracer), cost by CUDA-graph loops."""

    def __init__(self, options: Options, monitor: Monitor, foreign: str | None = None) -> None:
        import torch

        self._options = options
        self._monitor = monitor
        self._foreign = foreign
        self._cuda = torch.cuda
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._memory = int(properties.total_memory)
        self._l2 = l2_bytes(properties)
        self._flush = Flush(options.device, self._l2)
        self._disturb_caches = CacheDisturber(options.device)

    def session(self) -> Session:
        """A session that records kernels, copies and runtime calls."""
        return Session(gpu=True)

    def room(self) -> bool:
        """Whether calls hold less than a third of the device's memory."""
        return bool(self._cuda.memory_allocated() < 0.35 * self._memory)

    def rehearse(self, call: Call, item: Item, label: str, runs: int) -> Ring:
        """Warm up, then run marked, each time with the cache state put in place."""
        # Load code, make workspaces; returns the wall time of the last call, waited for, in nanoseconds.
        started, layouts = time.perf_counter_ns(), Layouts(call)
        for _ in range(max(self._options.warmup, 1)):
            started = time.perf_counter_ns()
            call.call()
            self._cuda.synchronize()
            layouts.put_back()
        once_ns = float(time.perf_counter_ns() - started)
        runs = max(smallest_sample(), min(runs, int(loops.CAP_NS / max(once_ns, 1))))
        sets = self._sets(call, item, runs)
        if sets.needs_flush:
            self._flush()
        for _ in range(runs):
            if sets.flush_each:
                self._flush()
            self._disturb_caches()
            sets.advance()
            layouts.put_back()
            sets.touch()
            if self._options.spacing == "idle":
                self._cuda.synchronize()
            with marker(label):
                call.call()
        self._cuda.synchronize()
        sets.reset()
        layouts.put_back()
        return Ring(sets.cold_bytes, sets.copies)

    def judge(self, item: Item, call: Call, attempt: int, marked: Sequence[Marked]) -> Verdict:
        """Let the route compare the kernels of the most frequent run with the planned ones."""
        seen, durations, changing = usual([[run.activities for run in marked]])
        notes = (*call.notes, *([CHANGING] if changing else []))
        match = routes.verify(item, call, Seen(seen))
        if self._foreign is not None:  # ATen's and Triton's kernels have the same names there, and are others
            match = grades.at_best(match, Grade.L3, self._foreign)
        waits = any(run.waits for run in marked)
        return Verdict(attempt, match, call.overload, notes, seen, durations, waits)

    def measure(self, call: Call, item: Item, verdict: Verdict) -> Timed:
        """Time per call in a CUDA-graph loop, where the call can be captured."""
        time_ = verdict.time
        if not self._options.loops or self._options.counters or time_ is None:
            return Timed(note="not asked for" if time_ is not None else "nothing ran on the GPU")
        if verdict.waits:
            return Timed(note="waits for the device, which a CUDA graph cannot")
        calls = loops.calls_per_graph(time_.median_ns, loops.MOST_CALLS_IN_PLACE if written(call) else loops.MOST_CALLS)
        sets, layouts = self._sets(call, item, calls), Layouts(call)
        try:
            loop = loops.GraphLoop(call, sets, calls)
            if layouts.changed:
                loop.close()
                return Timed(note=GROWING)
            cost = loops.graph_samples(loop, sets, self._flush)
            loop.replay()  # the device is busy while it is read
            state = self._monitor.state()
            loop.close()
        except (RuntimeError, UnresolvedCallError) as error:
            self.check()
            return Timed(note=f"no CUDA graph: {str(error).splitlines()[0][:120]}")
        finally:
            sets.reset()
        return Timed(loop=None if cost is None else LoopCost(cost, calls, sets.copies), state=state)

    def check(self) -> None:
        """Wait for the device; errors that survive a failed call surface here."""
        try:
            self._cuda.synchronize()
        except RuntimeError as error:
            raise BrokenDeviceError(str(error).splitlines()[0]) from error

    def release(self) -> None:
        """Empty PyTorch's cache of free blocks."""
        self._cuda.empty_cache()

    def state(self) -> DeviceState | None:
        """What NVML says now."""
        return self._monitor.state()

    def _sets(self, call: Call, item: Item, runs: int) -> Sets:
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, self._l2)
        memory = int(0.25 * self._cuda.mem_get_info()[0])
        return Sets(call, given, runs=runs, l2_bytes=self._l2, memory_bytes=memory)


def l2_bytes(properties: Any) -> int:
    """Size of the L2 cache from torch's device properties."""
    return int(getattr(properties, "L2_cache_size", 0)) or CPU_CACHE_BYTES


class CacheDisturber:
    """Call it to launch small kernels of a dozen kinds on `device`."""

    def __init__(self, device: str) -> None:
        import torch

        self._single = torch.randn(SIZE, SIZE, device=device)
        self._half = self._single.half()
        self._index = torch.arange(SIZE, device=device)
        self._steps = self._kinds()
        self._graph = self._captured() if torch.device(device).type == "cuda" else None

    def __call__(self) -> None:
        """Launch them; nothing is waited for."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._launch()

    def _launch(self) -> None:
        for step in self._steps:
            step()

    def _captured(self) -> Any:
        """The graph; None where the device cannot capture it."""
        with Session(gpu=True):
            self._launch()  # as all graphs, it is captured where the profiler has been attached before
        with contextlib.suppress(RuntimeError):
            return loops.captured(self._launch, self._launch)

    def _kinds(self) -> list[Callable[[], Any]]:
        import torch

        one, half = self._single, self._half
        return [
            lambda: torch.sin(one),
            lambda: one.pow(2),
            lambda: torch.nn.functional.gelu(half),
            one.max,
            lambda: one.cumsum(0),
            one.sort,
            lambda: torch.softmax(half, -1),
            lambda: torch.nn.functional.layer_norm(one, (SIZE,)),
            lambda: one @ one,
            lambda: half @ half,
            lambda: torch.cat([one, one]),
            lambda: one.index_select(0, self._index),
        ]
