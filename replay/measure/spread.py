"""Order statistics of durations: median, spread and a confidence interval that assumes no distribution."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

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
