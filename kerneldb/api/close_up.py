"""What a timeline draws of a stretch that holds few launches: all of it from one read of these launches.

Planning the statements that sum launches up takes longer than reading a few of them. Lanes, names, labels and the
launch under a cursor are the same as those that `timeline` finds of any stretch.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import timeline
from kerneldb.api.queries import has_condition, rows
from kerneldb.api.timeline import Bin, Label, Lane, Names, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.api.timeline import Axis, Stretch
    from kerneldb.selection import Selection

    Times = dict[str | None, int]

FEW: Final = 2_000
"""So many launches are summed up here before the engine has planned to."""


@dataclasses.dataclass(frozen=True, slots=True)
class CloseUp:
    """What `timeline.lanes`, `names`, `labels` and `at` find; no `launch` where no lane was given."""

    seen: Seen
    names: Names
    labels: list[Label]
    launch: Row | None


def expected(shown: Axis, full: Stretch, everything: Seen, stretch: Stretch) -> int:
    """About how many launches a stretch holds, by `everything` that the whole axis holds in the bins of `full`."""
    if not shown.traces:
        return 0
    first = max(stretch.first_ns // full.step_ns, 0)
    last = min((stretch.last_ns - 1) // full.step_ns, full.bins - 1)
    around = range(first, last + 1)
    n = sum(bins[place].launches for bins in everything.lanes.values() for place in around if place in bins)
    span = min(stretch.step_ns * stretch.bins, len(around) * full.step_ns)
    return n * span // max(len(around) * full.step_ns, 1)


def close_up(
    con: Connection,
    shown: Axis,
    selection: Selection,
    stretch: Stretch,
    lane: Lane | None,
    span: tuple[int, int],
    *,
    least_ns: int,
    most: int,
) -> CloseUp | None:
    """All of a stretch; labels of at most `most` launches of `least_ns` or more, the launch of `lane` in `span`.

    None where it holds more than a few launches.
    """
    params = {**timeline.placed(shown, stretch), "most": FEW + 1}
    if has_condition(selection.where):
        found = rows(con, "tui_timeline_few", params, selection)
    else:
        found = rows(con, "tui_timeline_few_all", params)
    if len(found) > FEW:
        return None
    wide = [row for row in found if row["duration_ns"] is not None and row["duration_ns"] >= least_ns][:most]
    return CloseUp(
        _seen(found, shown, stretch),
        Names(_named(found, "phase", stretch), _named(found, "module", stretch)),
        [Label(_lane(shown, one), one["begins"], one["ends"], one["label"], one["category"]) for one in wide],
        None if lane is None else timeline.told(con, _at(found, shown, lane, span)),
    )


def _lane(shown: Axis, row: Row) -> Lane:
    return Lane(row["number"], row["process"] if shown.several else None, row["device"], row["lane"])


def _at(found: Sequence[Row], shown: Axis, lane: Lane, span: tuple[int, int]) -> list[Row]:
    """The launch of a lane that ran longest in a span; of several, the first."""
    first, last = span
    here = [row for row in found if row["begins"] < last and row["ends"] >= first and _lane(shown, row) == lane]
    return sorted(
        here,
        key=lambda row: (max(row["begins"], first) - min(row["ends"], last), row["start_ns"], row["launch_index"]),
    )[:1]


def _seen(found: Iterable[Row], shown: Axis, stretch: Stretch) -> Seen:
    """The bins of the lanes, and the time of each category, the longest first."""
    spread: dict[Lane, dict[int, tuple[Times, int]]] = {}
    total: Times = {}
    for row in found:
        category, bins = row["category"], spread.setdefault(_lane(shown, row), {})
        for place, busy, n in _shares(row, stretch):
            _add(bins, place, category, busy, n)
            total[category] = total.get(category, 0) + busy
    lanes = {lane: _binned(bins) for lane, bins in spread.items()}
    ordered = sorted(total.items(), key=lambda one: (-one[1], one[0] is None, one[0] or ""))
    return Seen(lanes, dict(ordered))


def _named(found: Iterable[Row], column: str, stretch: Stretch) -> Mapping[int, Mapping[int, Bin]]:
    """The bins of the names in a column, by the place of the trace."""
    spread: dict[int, dict[int, tuple[Times, int]]] = {}
    for row in found:
        if (name := row[column]) is not None:
            bins = spread.setdefault(row["number"], {})
            for place, busy, n in _shares(row, stretch):
                _add(bins, place, name, busy, n)
    return {number: _binned(bins) for number, bins in spread.items()}


def _shares(row: Mapping[str, Any], stretch: Stretch) -> Iterator[tuple[int, int, int]]:
    """Per bin that a launch runs in: its place, the time there, and 1 in the first one, where it is counted."""
    step = stretch.step_ns
    begins = max(row["begins"] - stretch.first_ns, 0)
    ends = min(row["ends"], stretch.last_ns) - stretch.first_ns
    first = begins // step
    last = max(first, (ends - 1) // step)
    for place in range(first, last + 1):
        yield place, min(ends, (place + 1) * step) - max(begins, place * step), int(place == first)


def _add(bins: dict[int, tuple[Times, int]], place: int, name: str | None, busy: int, n: int) -> None:
    times, before = bins.get(place, ({}, 0))
    times[name] = times.get(name, 0) + busy
    bins[place] = times, before + n


def _binned(bins: Mapping[int, tuple[Times, int]]) -> dict[int, Bin]:
    """Bins with the name that ran longest in each; of several, the last by name."""
    found = {}
    for place, (times, n) in sorted(bins.items()):
        longest = max(((ns, name) for name, ns in times.items() if name is not None), default=(0, None))
        found[place] = Bin(sum(times.values()), longest[1], n)
    return found
