"""Repeated calls without a profiler: CUDA-graph loops on a GPU, a wall clock on a CPU, both with one stop rule.

Also the statistics of their durations: median, spread and a confidence interval that assumes no distribution.

A graph holds n calls over a ring of input sets, n so that a replay takes about a millisecond; its time divided by n is
the cost of a call with the gap to the next one, and no launch overhead of the host. Two replays are discarded, then
replays go on until the 95 % interval of the median is within 1 %, or 0.3 s of measured time have passed.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any, Final

from kerneldb.replay.measure.inputs import Flush, Layouts, Sets
from kerneldb.replay.routes.base import Call
from kerneldb.replay.wire.results import Spread

CONFIDENCE: Final = 0.95
CLOCK_STEP_NS: Final = 32.0
"""CUPTI reports most durations in steps of 32 ns (80–87 % of those on H100 and B200)."""


def spread(samples: Sequence[float]) -> Spread | None:
    """The statistics of `samples` (nanoseconds); None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    median = statistics.median(ordered)
    rank = interval_rank(len(ordered))
    return Spread(
        n=len(ordered),
        median_ns=median,
        mad_ns=statistics.median(abs(sample - median) for sample in ordered),
        low_ns=ordered[rank],
        high_ns=ordered[-1 - rank],
        mean_ns=statistics.fmean(ordered),
        min_ns=ordered[0],
    )


def settled(time: Spread, relative: float = 0.01, step_ns: float = CLOCK_STEP_NS) -> bool:
    """Whether half the interval is at most `relative` of the median, or at most one step of the clock."""
    if time.n < smallest_sample():
        return False
    return (time.high_ns - time.low_ns) / 2 <= max(relative * time.median_ns, step_ns)


@functools.cache
def interval_rank(n: int, confidence: float = CONFIDENCE) -> int:
    """The largest r such that the r-th smallest and r-th largest of `n` samples (from 0) bound the median.

    The count of samples below the median is binomial (n, 1/2); the interval misses it when that count is at most r or
    at least n - r. 0 where even the extremes do not reach `confidence`.
    """
    most = (1 - Fraction(str(confidence))) / 2 * 2**n  # exact: beyond what a float holds from 1,024 samples on
    rank, ways, tail = 0, n, 1
    while tail + ways <= most:
        rank, tail = rank + 1, tail + ways
        ways = ways * (n - rank) // (rank + 1)
    return rank


@functools.cache
def smallest_sample(confidence: float = CONFIDENCE) -> int:
    """The fewest samples whose extremes bound the median with `confidence`: 6 for 95 %."""
    return next(n for n in range(2, 64) if 2 * 0.5**n <= 1 - confidence)


MOST_CALLS: Final = 256
MOST_CALLS_IN_PLACE: Final = 32
GRAPH_NS: Final = 1_000_000
FEWEST: Final = 9
MOST: Final = 40
CAP_NS: Final = 300_000_000
CPU_CAP_NS: Final = 50_000_000


def repeat(sample: Callable[[], float], *, fewest: int = FEWEST, cap_ns: float = CAP_NS) -> list[float]:
    """Take samples (nanoseconds) until they settle: the stop rule of all loops."""
    samples: list[float] = []
    for _ in range(MOST):
        samples.append(sample())
        if len(samples) < fewest:
            continue
        found = spread(samples)
        if sum(samples) >= cap_ns or (found is not None and settled(found, 0.01, step_ns=0.0)):
            break
    return samples


def wall_clock(call: Call, sets: Sets, *, warmup: int, fewest: int) -> Spread | None:
    """Wall times of single calls (perf_counter), each with its input set in place."""
    layouts = Layouts(call)

    def sample() -> float:
        layouts.put_back()
        sets.advance()
        sets.touch()
        start = time.perf_counter_ns()
        call.call()
        return float(time.perf_counter_ns() - start)

    for _ in range(warmup):
        sample()
    return spread(repeat(sample, fewest=fewest, cap_ns=CPU_CAP_NS))


def calls_per_graph(call_ns: float, most: int, graph_ns: float = GRAPH_NS) -> int:
    """How many calls one graph holds that takes about `graph_ns`; at most `most`, few where values drift."""
    return max(1, min(most, round(graph_ns / max(call_ns, 1.0))))


class GraphLoop:
    """A captured loop of `calls` calls. Raises RuntimeError where the call cannot be captured."""

    def __init__(self, call: Call, sets: Sets, calls: int) -> None:
        import torch

        self.calls = calls
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

        def body() -> None:
            for _ in range(calls):
                sets.advance()
                call.call()

        self._graph = captured(body, call.call)

    def replay(self) -> None:
        """Enqueue the loop once."""
        self._graph.replay()

    def sample(self, prepare: Callable[[], object]) -> float:
        """Nanoseconds per call of one replay. `prepare` enqueues work that covers the launch of the graph."""
        prepare()
        self._start.record()
        self._graph.replay()
        self._end.record()
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end)) * 1e6 / self.calls

    def close(self) -> None:
        """Give the graph's memory back to the pool."""
        import torch

        torch.cuda.synchronize()
        self._graph.reset()


def captured(body: Callable[[], object], first: Callable[[], object]) -> Any:
    """A CUDA graph of what `body` launches. Raises RuntimeError where it cannot be captured.

    `first` runs before on the side stream, so that workspaces are made there and not in the graph. All graphs share
    one pool of memory: they may be replayed in any order, but not at the same time.
    """
    import torch

    stream, pool, _ = _side()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        first()
        torch.cuda.synchronize()
        with capturing(graph, pool):
            body()
    torch.cuda.synchronize()
    return graph


@functools.cache
def _side() -> tuple[Any, Any, Any]:
    """One stream for all captures, and one memory pool, which the first graph keeps alive: held here, with its data."""
    import torch

    stream, pool, keeper = torch.cuda.Stream(), torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), capturing(keeper, pool):
        held = torch.ones(1, device="cuda")
    return stream, pool, (keeper, held)


@contextmanager
def capturing(graph: Any, pool: Any) -> Iterator[None]:
    """Capture on the current stream. `torch.cuda.graph` would collect garbage and empty the cache each time."""
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    except BaseException:
        with suppress(RuntimeError):  # the capture that an error has invalidated: the runtime reports it once more
            graph.capture_end()
        raise
    graph.capture_end()


def graph_samples(loop: GraphLoop, sets: Sets, flush: Flush) -> Spread | None:
    """Time per call over replays, each from the same values and the same state of the cache."""

    def prepare() -> None:
        sets.restore()
        if sets.needs_flush:
            flush()
        sets.touch()

    for _ in range(2):
        loop.sample(prepare)
    return spread(repeat(lambda: loop.sample(prepare)))
