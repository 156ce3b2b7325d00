"""Finds the changes of all lines of a series, and says what explains each: clocks, another driver, or the program."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Any, Final

from kerneldb.history import steps
from kerneldb.history.model import CLOCKS, FEWEST, LEAST_OF_PARTS_PCT, LEAST_PCT, Change, Line, Run, Step

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

SHARED: Final = frozenset({"kernel", "operator", "module"})
"""Subjects that a shift of the clocks moves, and that are compared without it."""
WHOLE: Final = frozenset({"total", "energy", "measured"})
"""Subjects in which what boards do to single kernels is averaged out."""
FEWEST_KERNELS: Final = 8
"""So many kernels tell what all of them have in common."""
USUAL: Final = 0.8
"""A kernel that ran in such a share of the runs tells."""
MANY: Final = 0.3
"""Where so many kernels change at once in one direction, the machine did, not the program."""
NEAR: Final = 2
"""Changes at most so many runs apart are at one place."""
MACHINE: Final = frozenset({"host", "uuid", "gpu"})
SHARES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""So much of what all kernels have in common, from run to run, may a line have: what leaves it smoothest."""
BESIDE: Final = 3 * FEWEST
"""Runs on either side that say how much of a step of the shift a kernel follows."""
FASTEST: Final = 1.5
"""A kernel may follow more than the median of all does."""
COUNTED: Final = 0.005
"""Other numbers of launches: at least half a percent."""


def changes(runs: Sequence[Run], lines: Sequence[Line], places: int) -> list[Change]:
    """The changes of a series; `places` is how many runs its whole history has, of which `runs` are the last."""
    usable = [line for line in lines if len(line.values) >= 2 * FEWEST]
    common = shared_shift(usable, len(runs))
    shift = Line(
        CLOCKS, "shift of all kernels", range(len(runs)), [math.exp(one) for one in common], [None] * len(runs)
    )
    shifts = steps.find(common, places, len(usable))
    parts = _parts(common, shifts)
    logarithms = [_logarithms(line, parts) for line in usable]
    usual = statistics.median(map(steps.correlation, logarithms)) if logarithms else 0.0
    found = [
        (line, step)
        for line, values in zip(usable, logarithms, strict=True)
        for step in steps.find(values, places, len(usable), usual, _least_pct(line))
    ]
    found += [(shift, step) for step in shifts]
    crowds = _crowds(found, sum(line.subject == "kernel" for line in usable))
    return [_change(runs, line, step, is_clocks=_is_clocks(line, step, crowds, shifts)) for line, step in found]


def shared_shift(lines: Sequence[Line], runs: int) -> Floats:
    """By which logarithm the kernels of each run are slower than usual, in the median; zeros where too few tell."""
    import numpy as np

    usual = [line for line in lines if line.subject == "kernel" and len(line.places) >= USUAL * runs]
    if len(usual) < FEWEST_KERNELS:
        return np.zeros(runs)
    table = np.full((len(usual), runs), np.nan)
    for row, line in enumerate(usual):
        logarithms = np.log(np.asarray(line.values))
        table[row, list(line.places)] = logarithms - np.median(logarithms)
    present = ~np.isnan(table).all(axis=0)
    shift = np.zeros(runs)
    shift[present] = np.nanmedian(table[:, present], axis=0)
    return shift


def _parts(common: Floats, found: Sequence[Step]) -> tuple[Floats, Floats]:
    """The shift as its levels, from the first on, and what it is beside them from run to run."""
    import numpy as np

    ends = [0, *(step.at for step in found), len(common)]
    means = [float(common[a:b].mean()) for a, b in itertools.pairwise(ends)]
    levels = np.concatenate(
        [np.full(b - a, mean - means[0]) for (a, b), mean in zip(itertools.pairwise(ends), means, strict=True)]
    )
    return levels, common - levels


def _least_pct(line: Line) -> float:
    return LEAST_PCT if line.subject in WHOLE else LEAST_OF_PARTS_PCT


def _logarithms(line: Line, common: tuple[Floats, Floats]) -> Floats:
    """The line without as much of the shift as it follows."""
    import numpy as np

    found: Floats = np.log(np.asarray(line.values, dtype=float))
    if line.subject not in SHARED:
        return found
    levels, rest = (part[list(line.places)] for part in common)
    found = found - _followed(found, levels) * levels
    return np.asarray(min((found - share * rest for share in SHARES), key=steps.spread))


def _followed(line: Floats, levels: Floats) -> float:
    """How much of the steps of the shift a line follows: what memory bounds does not follow a clock."""
    import numpy as np

    places = np.flatnonzero(np.diff(levels)) + 1
    shifted = levels[places] - levels[places - 1]
    moved = [line[at : at + BESIDE].mean() - line[max(0, at - BESIDE) : at].mean() for at in places]
    return min(max(float(np.dot(moved, shifted) / np.dot(shifted, shifted)), 0.0), FASTEST) if len(places) else 0.0


def _crowds(found: Sequence[tuple[Line, Step]], kernels: int) -> set[tuple[int, bool]]:
    """Places (as runs) and directions at which so many kernels change that the machine did."""
    at = [(line.places[step.at], step.shift > 0) for line, step in found if line.subject == "kernel"]
    return {
        (place, up)
        for place, up in at
        if sum(way is up and abs(other - place) <= NEAR for other, way in at) >= max(MANY * kernels, 4)
    }


def _is_clocks(line: Line, step: Step, crowds: Set[tuple[int, bool]], shifts: Sequence[Step]) -> bool:
    """Whether a step is what all kernels have in common, one of a crowd, or what is left of a larger common one."""
    place = line.places[step.at]
    near = [one for one in shifts if abs(one.at - place) <= NEAR and abs(step.shift) < abs(one.shift)]
    return line.subject == CLOCKS or (place, step.shift > 0) in crowds or (line.subject in SHARED and bool(near))


def _change(runs: Sequence[Run], line: Line, step: Step, *, is_clocks: bool) -> Change:
    first, last = runs[line.places[step.first]], runs[line.places[step.last]]
    values = line.values
    before = math.fsum(values[step.begin : step.at]) / (step.at - step.begin)
    after = math.fsum(values[step.at : step.end]) / (step.end - step.at)
    width = steps.quantile(max(step.end - step.begin - 2, 1)) * step.error
    low, middle, high = (100 * math.expm1(step.shift + side) for side in (-width, 0.0, width))
    cause, detail = _explained(runs, line, step, is_clocks=is_clocks)
    per_unit = line.counts[step.at] if line.subject == "kernel" else 1.0
    timed = line.subject in SHARED | {"budget", "total"}
    return Change(
        trace_id=runs[line.places[step.at]].trace_id,
        before_trace_id=runs[line.places[step.at - 1]].trace_id,
        subject=line.subject,
        name=line.name,
        first_commit=first.commit,
        last_commit=last.commit,
        before_value=before,
        after_value=after,
        change_pct=middle,
        low_pct=low,
        high_pct=high,
        impact_ns=before * middle / 100 * per_unit if timed and per_unit is not None else None,
        p_value=step.p_value,
        runs_before=step.at - step.begin,
        runs_after=step.end - step.at,
        noise_pct=100 * step.noise,
        cause=cause,
        detail=detail,
    )


def _explained(runs: Sequence[Run], line: Line, step: Step, *, is_clocks: bool) -> tuple[str, str | None]:
    """The cause of a change, and what else changed at its place."""
    left = [runs[place] for place in line.places[max(step.begin, step.at - FEWEST) : step.at]]
    right = [runs[place] for place in line.places[step.at : min(step.end, step.at + FEWEST)]]
    moved = _moved(left, right)
    counts = _counted(line, step)
    detail = "; ".join([*(f"{key} {old} -> {new}" for key, (old, new) in moved.items()), *([counts] if counts else [])])
    first, last = runs[line.places[step.first]].commit, runs[line.places[step.last]].commit
    if MACHINE & moved.keys():
        return "machine", detail
    if moved:
        return ("driver" if any("driver" in key for key in moved) else "software"), detail
    if is_clocks:
        return CLOCKS, detail or "most kernels of the run changed alike"
    if counts:
        return "launches", detail
    return ("same commit" if first == last else "code"), detail or None


def _moved(before: Sequence[Run], after: Sequence[Run]) -> dict[str, tuple[str, str]]:
    """Facts of the environment that all runs before have in common, and all runs after, but not with each other."""
    keys = sorted({key for run in (*before, *after) for key in run.environment})
    found = {}
    for key in keys:
        old, new = ({run.environment.get(key, "unknown") for run in side} for side in (before, after))
        if len(old) == len(new) == 1 and old != new:
            found[key] = (old.pop(), new.pop())
    return found


def _counted(line: Line, step: Step) -> str | None:
    """In words, whether there are other numbers of launches after a step of a line that sums them."""
    if line.subject == CLOCKS:
        return None
    old, new = (
        sorted(count for count in line.counts[a:b] if count is not None)
        for a, b in ((step.begin, step.at), (step.at, step.end))
    )
    if not old or not new:
        return None
    before, after = old[len(old) // 2], new[len(new) // 2]
    if line.subject == "budget" or abs(after - before) <= COUNTED * before:
        return None
    return f"launches {before:,.4g} -> {after:,.4g}"
