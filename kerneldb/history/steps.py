"""Finds where a noisy line of points steps to another level: ruptures proposes, a test decides.

`ruptures` (BSD 2-clause; Truong, Oudre, Vayatis 2020) cuts a line optimally for a penalty. Its cuts are candidates:
each must pass a t test between the stretches beside it. Its variance counts the correlation of successive points, its
level is corrected for every place of the history and for 1,000 series or more (Bonferroni), that of a stretch between
two cuts for every length as well. Those that fail are taken out, weakest first.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from kerneldb.history.model import FEWEST, LEAST_PCT, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

LEVEL: Final = 0.05
"""Expected false alarms among 1,000 series (and among all series of one history, where those are more)."""
FAMILY: Final = 1_000
OUTLIER: Final = 4.0
"""Points farther from the median of their neighbours than so many standard deviations are drawn in to there."""
NEIGHBOURS: Final = 9
SURE: Final = 7.68
"""Twice the 95 % point of chi² with one degree: places whose cost is less above the best may be the place, too."""
FAR: Final = 8
"""Points so far apart count as independent."""
SHORT: Final = 10
"""In a short line points are as far apart as one in so many: of the differences across a step there are few then."""
LASTING: Final = 2 * FEWEST
"""What ends within fewer runs came back: no change for good."""
STRONGEST: Final = 0.9
TOLD: Final = 50
"""So many points tell as much of the correlation of a line as the other lines do."""
MOST: Final = 0.9
TRIMMED: Final = 0.6574
"""Mean of the smallest nine tenths of absolute normal deviates."""
EQUAL: Final = 1e-6
"""The noise of values that are equal to the digit: counts, clocks that never move."""


def find(values: Floats, places: int, series: int, usual: float = 0.0, least_pct: float = LEAST_PCT) -> list[Step]:
    """The steps of a line of logarithms, of `least_pct` or more.

    `places` is how many runs the whole history has, `series` how many lines it has: both correct the level. `usual` is
    the correlation of successive points that lines of this history have.
    """
    if len(values) < 2 * FEWEST:
        return []
    scale = spread(values) or EQUAL
    drawn = drawn_in(values, scale)
    if _apart_at_most(drawn) < least_pct / 100:
        return []
    tests = float(max(places - 2 * FEWEST, 1)) * max(series, FAMILY)
    whole = _over(values, 1) or EQUAL
    rho = _shrunk(correlation(values), usual, len(values))
    cuts = _proposed(drawn / whole, inflation(rho) * math.log(tests))
    return _kept(drawn, cuts, _Line(tests, whole, rho, usual, least_pct))


def _apart_at_most(values: Floats) -> float:
    """By how much the means of two stretches may differ: longer ones consist of such as are looked at."""
    import numpy as np

    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = [(sums[n:] - sums[:-n]) / n for n in range(FEWEST, 2 * FEWEST)]
    return max(float(one.max()) for one in means) - min(float(one.min()) for one in means)


def spread(values: Floats, lag: int = 1) -> float:
    """The standard deviation of points, by their differences to the `lag`-th after them, the largest tenth left out.

    So steps hardly count. With correlated points it grows with `lag`.
    """
    import numpy as np

    apart = np.sort(np.abs(values[lag:] - values[:-lag]))
    return float(apart[: max(math.ceil(MOST * len(apart)), 1)].mean()) / TRIMMED / math.sqrt(2)


def correlation(values: Floats) -> float:
    """Of successive points, by the differences of near and of far ones: steps hardly count."""
    near, far = spread(values), _over(values, _farthest(values) - 1)
    return min(max(1 - (near / far) ** 2, 0.0), STRONGEST) if far > 0 else 0.0


def _over(values: Floats, nearest: int) -> float:
    """The spread over several lags, an even number: nights that take turns differ by more at odd ones."""
    lags = range(nearest, _farthest(values) + 1)
    return math.sqrt(math.fsum(spread(values, lag) ** 2 for lag in lags) / len(lags))


def _farthest(values: Floats) -> int:
    return 2 * max(1, min(FAR, len(values) // SHORT) // 2)


def _shrunk(own: float, usual: float, points: int) -> float:
    """A correlation that few points tell badly, drawn towards what lines of this history have."""
    return (points * own + TOLD * usual) / (points + TOLD)


def inflation(rho: float) -> float:
    """By how much a correlation `rho` of successive points (AR(1)) inflates the variance of their mean."""
    return (1 + rho) / (1 - rho)


def drawn_in(values: Floats, scale: float) -> Floats:
    """The line with outliers drawn in: one bad run is no change."""
    import numpy as np

    half = min(NEIGHBOURS, len(values) - 1) // 2
    padded = np.pad(values, half, mode="edge")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    return np.asarray(np.clip(values, middle - OUTLIER * scale, middle + OUTLIER * scale))


def _proposed(line: Floats, penalty: float) -> list[int]:
    """Where an optimal cut of a line in units of its noise is. No more stretches than the penalty allows."""
    import ruptures

    found = ruptures.KernelCPD(kernel="linear", min_size=FEWEST).fit(line.reshape(-1, 1)).predict(pen=penalty)
    return [int(place) for place in found[:-1]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """What is known of a line before its cuts are.

    Tests that its level is corrected for, noise and correlation as they look without cuts, the correlation that lines
    of its history have, and the least change [%] that counts.
    """

    tests: float
    scale: float
    rho: float
    usual: float
    least_pct: float


def _kept(line: Floats, cuts: Sequence[int], known: _Line) -> list[Step]:
    """The cuts that pass the test, after the weakest that does not is taken out, again and again."""
    left = list(cuts)
    while left:
        ends = [0, *left, len(line)]
        noise = _noise(line, ends, known)
        steps = [
            _tested(line, (ends[place - 1], ends[place], ends[place + 1]), noise, known.tests)
            for place in range(1, len(ends) - 1)
        ]
        weak = _weak(steps, known.least_pct)
        if weak is None:
            return steps
        del left[weak]
    return []


def _weak(steps: Sequence[Step], least_pct: float) -> int | None:
    """The step to take out: the least sure one, else the smaller end of a stretch that soon ended, else a small one."""
    least = max(range(len(steps)), key=lambda place: (steps[place].p_value, -abs(steps[place].shift)))
    if steps[least].p_value > LEVEL:
        return least
    for first, last in itertools.pairwise(range(len(steps))):
        if steps[last].at - steps[first].at < LASTING:
            return min(first, last, key=lambda place: abs(steps[place].shift))
    smallest = min(range(len(steps)), key=lambda place: abs(steps[place].shift))
    return smallest if abs(steps[smallest].shift) < least_pct / 100 else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Noise:
    """The standard deviation within stretches, what correlation inflates the variance of means by, and the kurtosis."""

    deviation: float
    inflated: float
    kurtosis: float

    def degrees(self, points: int, fewer: int) -> float:
        """Degrees of freedom of the t test of a step in a line of `points`, the shorter side of which has `fewer`.

        The mean of n points has an n-th of their excess kurtosis; a t distribution has 6 / (degrees - 4).
        """
        tails = 4 + 6 * fewer / self.inflated / self.kurtosis if self.kurtosis > 0 else math.inf
        return max(min((points - 2) / self.inflated, tails), 2.0)


def _noise(line: Floats, ends: Sequence[int], known: _Line) -> _Noise:
    """The noise of a line with its cuts.

    Cuts that follow the noise make it look small, so what the line without cuts has is the least that is taken.
    """
    import numpy as np

    rest = np.concatenate([line[a:b] - line[a:b].mean() for a, b in itertools.pairwise(ends)])
    total = float(np.sum(rest**2))
    noise = max(math.sqrt(total / max(len(line) - len(ends) + 1, 1)), known.scale)
    # A stretch takes its mean from its points, which lowers the correlation by about one over its length.
    bias = (len(ends) - 1) / len(line)
    found = float(np.sum(rest[1:] * rest[:-1])) / total + bias if total > 0 else 0.0
    rho = max(_shrunk(found, known.usual, len(line)), known.rho)
    kurtosis = float(np.mean(rest**4)) * len(rest) ** 2 / total**2 - 3 if total > 0 else 0.0
    return _Noise(noise, inflation(min(max(rho, 0.0), STRONGEST)), kurtosis)


def _tested(line: Floats, ends: tuple[int, int, int], noise: _Noise, tests: float) -> Step:
    begin, at, end = ends
    before, after = line[begin:at], line[at:end]
    shift = float(after.mean() - before.mean())
    error = noise.deviation * math.sqrt(noise.inflated * (1 / len(before) + 1 / len(after)))
    by_means = tail(shift / error, noise.degrees(len(line), min(len(before), len(after))))
    p_value = 2 * min(by_means, apart(before, after, noise.inflated))  # two tests, of which either will do
    # Of a stretch between two cuts both ends were chosen: the level is corrected for its length, too.
    is_between = begin > 0 if len(before) < len(after) else end < len(line)
    tests *= len(line) if is_between else 1
    first, last = _range(line, begin, at, end, noise.deviation * math.sqrt(noise.inflated))
    return Step(at, first, last, begin, end, shift, error, min(1.0, p_value * tests), noise.deviation)


def apart(before: Floats, after: Floats, inflated: float) -> float:
    """The two-sided p-value of so few pairs across a step being in the wrong order, whatever the noise looks like.

    Of all ways to order the points, as many as the numbers up to u have partitions have u such pairs or fewer (Mann and
    Whitney 1947; an upper bound where u is more than the points of the shorter side).
    """
    import numpy as np

    ordered = np.sort(before)
    above = int(np.searchsorted(ordered, after, side="left").sum())  # pairs where the later one is the larger
    below = len(before) * len(after) - int(np.searchsorted(ordered, after, side="right").sum())
    wrong = len(before) * len(after) - max(above, below)
    if wrong >= len(PARTITIONS):
        return 1.0
    one, other = len(before) / inflated, len(after) / inflated
    ways = math.lgamma(one + other + 1) - math.lgamma(one + 1) - math.lgamma(other + 1)
    return min(1.0, 2 * PARTITIONS[wrong] * math.exp(-ways))


def _partitions(most: int) -> list[int]:
    """How many partitions the numbers up to each one have, together."""
    ways = [1] + [0] * most
    for part in range(1, most + 1):
        for number in range(part, most + 1):
            ways[number] += ways[number - part]
    return list(itertools.accumulate(ways))


PARTITIONS: Final = _partitions(60)


def tail(t: float, degrees: float) -> float:
    """The two-sided tail of Student's t distribution."""
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(t)))


def quantile(degrees: float) -> float:
    """The 97.5 % point of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def _range(line: Floats, begin: int, at: int, end: int, noise: float) -> tuple[int, int]:
    """The last point that is surely before a step and the first that is surely after it."""

    def cost(place: int) -> float:
        left, right = line[begin:place], line[place:end]
        return float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())

    best = cost(at)
    near = range(max(begin + 1, at - 2 * FEWEST), min(end - 1, at + 2 * FEWEST) + 1)
    possible = [place for place in near if (cost(place) - best) / noise**2 <= SURE / 2]
    return min(possible) - 1, max(possible)
