"""What a timeline shows: traces on a common axis, bins of their lanes, and single launches.

All functions take a connection, and times in ns. A lane is what runs launches one after the other: a
stream of a device, or, where a trace names no streams, a queue.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final, Literal

from kerneldb.api.browsing import ask, rows
from kerneldb.api.queries import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from kerneldb.selection import Selection

    Connection = duckdb.DuckDBPyConnection
    Relation = duckdb.DuckDBPyRelation

Row = dict[str, Any]
Place = tuple[str, int]
"""The trace id and the launch index of a launch."""
Direction = Literal["next", "previous"]

COLUMNS: Final = ("trace_id", "process", "device", "stream", "queue", "category", "timing", "start_ns", "end_ns")
ACTIVITIES: Final = "activities"
LANED: Final = "laned"
PAIRED: Final = "paired"
LEAST_GRAINS: Final = 12
"""Bins of everything are a multiple of the stored ones where that makes the chart at most a twelfth longer."""
NEARBY: Final = 16
"""A neighbour is looked for within so many times the visible range first: the engine skips the rest then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A trace on the axis: an event at `start_ns` of the trace stands at `start_ns + shift_ns` of the axis.

    `bin_ns` is how wide its stored bins are, a power of two; None: it has none.
    """

    trace: str
    trace_id: str
    first_ns: int
    last_ns: int
    shift_ns: int
    processes: int = 1
    devices: str | None = None
    bin_ns: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """The traces that have times, on one axis that begins at 0.

    `aligned` says that the traces share a clock; else each begins at 0. `left_out` are traces without times, with the
    reason.
    """

    traces: tuple[Placed, ...]
    aligned: bool
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def end_ns(self) -> int:
        """Where the last launch of any trace ends."""
        return max((one.last_ns + one.shift_ns for one in self.traces), default=0)

    @property
    def several(self) -> bool:
        """Whether a trace has launches of more than one process."""
        return any(one.processes > 1 for one in self.traces)

    def stretch(self, first_ns: int, last_ns: int, columns: int) -> Stretch:
        """At least the range from `first_ns` to `last_ns`, in as many bins as there are `columns`.

        Bins of everything are a little wider than needed where stored bins fill them then.
        """
        exact = Stretch.of(first_ns, last_ns, columns)
        # On a clock in common, traces begin where they do, and not where a bin does.
        grain = 0 if self.aligned else max((one.bin_ns or 0 for one in self.traces), default=0)
        if grain == 0 or first_ns > 0 or last_ns < self.end_ns or exact.step_ns < LEAST_GRAINS * grain:
            return exact
        return Stretch(first_ns, -(-exact.step_ns // grain) * grain, columns)

    def stored(self, stretch: Stretch) -> tuple[int, ...]:
        """The traces, by place, of which stored bins fill those of the stretch."""
        if self.aligned or stretch.first_ns != 0 or stretch.last_ns <= self.end_ns:
            return ()
        widths = enumerate(one.bin_ns for one in self.traces)
        return tuple(place for place, width in widths if width and stretch.step_ns % width == 0)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Lane:
    """Where launches run one after the other. `number` is the place of the trace in `Axis.traces`.

    `code` is twice the stream, or twice the queue and one; None where neither is known.
    """

    number: int
    process: str | None
    device: int | None
    code: int | None

    @property
    def label(self) -> str:
        """`s7` for a stream, `q7` for a queue."""
        if self.code is None:
            return "?"
        return f"{'q' if self.code % 2 else 's'}{self.code // 2}"

    @property
    def order(self) -> tuple[int, str, int, int]:
        """What lanes are sorted by; those without a device or stream come first."""
        blank = -(1 << 62)
        device = blank if self.device is None else self.device
        return self.number, self.process or "", device, blank if self.code is None else self.code


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """A bin of a lane: how long launches ran in it, which category (or phase) ran longest, launches first seen here."""

    busy_ns: int
    category: str | None
    launches: int


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A launch with its name: from when to when on the axis, in ns, and its category."""

    lane: Lane
    begins_ns: int
    ends_ns: int
    text: str
    category: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What a stretch of the axis holds: bins by lane and number of the bin, and the time of each category in ns."""

    lanes: Mapping[Lane, Mapping[int, Bin]] = dataclasses.field(default_factory=dict)
    categories: Mapping[str | None, int] = dataclasses.field(default_factory=dict)

    @property
    def launches(self) -> int:
        """How many launches are seen, at least in part."""
        return sum(one.launches for bins in self.lanes.values() for one in bins.values())


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the axis in bins of a whole number of ns."""

    first_ns: int
    step_ns: int
    bins: int

    @classmethod
    def of(cls, first_ns: int, last_ns: int, bins: int) -> Stretch:
        """At least the range from `first_ns` to `last_ns`, in `bins` bins."""
        return cls(first_ns, max(1, -(-(last_ns - first_ns) // bins)), bins)

    @property
    def last_ns(self) -> int:
        """Its end."""
        return self.first_ns + self.step_ns * self.bins


def axis(con: Connection, traces: Sequence[str]) -> Axis:
    """The traces named (none: all), side by side. Traces of one run whose clocks are the same keep their distances."""
    found = rows(con, "tui_timeline_traces", {"traces": list(traces) or None})
    timed = [row for row in found if row["first_ns"] is not None]
    aligned = _one_clock(timed)
    origin = min((row["base_ns"] + row["first_ns"] for row in timed), default=0) if aligned else 0
    placed = tuple(
        Placed(
            row["trace"],
            row["trace_id"],
            row["first_ns"],
            row["last_ns"],
            row["base_ns"] - origin if aligned else -row["first_ns"],
            row["processes"],
            row["device_names"],
            row["bin_ns"],
        )
        for row in timed
    )
    return Axis(placed, aligned, tuple((row["trace"], _reason(row)) for row in found if row["first_ns"] is None))


def beginning(con: Connection, known: Axis | None, selection: Selection, columns: int) -> tuple[Axis, Seen]:
    """The axis (`known`, where it is) of a selection and everything on it, in as many bins as there are `columns`."""
    shown = known or axis(con, selection.traces)
    return shown, lanes(con, shown, selection, shown.stretch(0, shown.end_ns, columns))


def _one_clock(timed: Sequence[Row]) -> bool:
    clocks = {(row["run"], row["clock"]) for row in timed}
    known = all(row["base_ns"] is not None and row["run"] is not None and row["clock"] is not None for row in timed)
    if len(timed) < 2 or len(clocks) != 1 or not known:  # noqa: PLR2004 (several)
        return False
    begins = max(row["base_ns"] + row["first_ns"] for row in timed)
    ends = min(row["base_ns"] + row["last_ns"] for row in timed)
    return bool(begins < ends)


def _reason(row: Row) -> str:
    if row["profiled"]:
        return "launches ran one by one under a counter profiler, so their times make no timeline"
    if row["kind"] == "summary":
        return "holds sums only, no single launches"
    return "holds no launches with times"


def lanes(con: Connection, shown: Axis, selection: Selection, stretch: Stretch) -> Seen:
    """The selected launches of a stretch, in bins."""
    process = "process" if shown.several else "NULL::VARCHAR AS process"
    columns = ", ".join(process if name == "process" else name for name in COLUMNS)
    _read(con, _launches(con, selection, "tui_timeline_launches_all").select(columns))
    if not _takes_all(selection):
        return _binned(con, shown, stretch)
    return _binned(con, shown, stretch, _categories(con), shown.stored(stretch))


def phases(con: Connection, shown: Axis, selection: Selection, stretch: Stretch) -> dict[int, Mapping[int, Bin]]:
    """The bins of the phases, by place of the trace and number of the bin: `Bin.category` is the phase here."""
    lane = "NULL::VARCHAR AS process, NULL::INTEGER AS device, NULL::BIGINT AS stream, NULL::BIGINT AS queue"
    source = _launches(con, selection, "tui_timeline_phases_all").filter("phase IS NOT NULL")
    _read(con, source.select(f"trace_id, {lane}, phase AS category, timing, start_ns, end_ns"))
    return {lane.number: bins for lane, bins in _binned(con, shown, stretch).lanes.items()}


def _takes_all(selection: Selection) -> bool:
    return selection.where is None or not selection.where.strip()


def _launches(con: Connection, selection: Selection, everything: str) -> Relation:
    """The launches of `selection`. The traces named are picked by the axis, so a missing WHERE needs no filter."""
    return con.sql(statement(everything)) if _takes_all(selection) else selection.relation(con)


def _categories(con: Connection) -> tuple[str | None, ...]:
    """The category of each number of the statement that reads all launches; 0 is none."""
    return None, *(category for (category,) in con.execute(statement("tui_timeline_categories")).fetchall())


def _read(con: Connection, relation: Relation) -> None:
    con.register(ACTIVITIES, relation)


def _binned(
    con: Connection,
    shown: Axis,
    stretch: Stretch,
    numbered: Sequence[str | None] | None = None,
    stored: Sequence[int] = (),
) -> Seen:
    """What `activities` holds of the stretch. `numbered` tells the categories where they are numbers there.

    Of the traces at the places `stored`, the stored bins are read instead.
    """
    if not shown.traces:
        return Seen()
    con.register(PAIRED, _paired(con, shown, stretch, stored))
    bins: dict[Lane, dict[int, Bin]] = {}
    categories: dict[str | None, int] = {}
    for number, process, device, lane, place, busy, found, n in con.execute(
        statement("tui_timeline_bins"), {"step_ns": stretch.step_ns}
    ).fetchall():
        category = found if numbered is None else numbered[found or 0]
        if place is None:
            categories[category] = busy
        else:
            bins.setdefault(Lane(number, process, device, lane), {})[place] = Bin(busy, category, n)
    return Seen(bins, categories)


def _paired(con: Connection, shown: Axis, stretch: Stretch, stored: Sequence[int]) -> Relation:
    """Launches summed by the bins in which they begin and end: from stored bins where they serve."""
    found = []
    if scanned := [place for place in range(len(shown.traces)) if place not in stored]:
        whole = stretch.first_ns <= 0 and stretch.last_ns > shown.end_ns
        params = {**_placed(shown, stretch, scanned), "step_ns": stretch.step_ns, "whole": whole}
        found.append(con.sql(statement("tui_timeline_paired"), params=params))
    if stored:
        traces = [shown.traces[place].trace_id for place in stored]
        kept = {"traces": traces, "numbers": list(stored), "step_ns": stretch.step_ns}
        named = {f"stored_{name}": value for name, value in kept.items()}
        found.append(con.sql(statement("tui_timeline_stored"), params={**named, "several": shown.several}))
    return functools.reduce(lambda one, other: one.union(other), found)


def _placed(shown: Axis, stretch: Stretch, places: Sequence[int] | None = None) -> Row:
    """The parameters that say where the traces (at `places`; None: all) lie, and what part of the axis is wanted."""
    numbers = list(range(len(shown.traces)) if places is None else places)
    shifts = [shown.traces[number].shift_ns for number in numbers]
    return {
        "traces": [shown.traces[number].trace_id for number in numbers],
        "numbers": numbers,
        "shifts": shifts,
        "first_ns": stretch.first_ns,
        "last_ns": stretch.last_ns,
        "lowest_ns": stretch.first_ns - max(shifts),
        "highest_ns": stretch.last_ns - min(shifts),
    }


def _keys(shown: Axis, lane: Lane) -> Row:
    several = shown.several
    return {
        "trace_id": shown.traces[lane.number].trace_id,
        "process": lane.process if several else None,
        "device": lane.device,
        "lane": lane.code,
    }


def at(con: Connection, shown: Axis, selection: Selection, lane: Lane, span: tuple[int, int]) -> Row | None:
    """The selected launch of `lane` that ran longest in the `span` of the axis."""
    shift = shown.traces[lane.number].shift_ns
    params = {**_keys(shown, lane), "first_ns": span[0] - shift, "last_ns": span[1] - shift}
    return _told(con, _places(con, "tui_timeline_at", params, selection))


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """From a launch (its start in ns of the trace, and its index) to the one before or after it in its lane.

    `reach_ns` is what is visible: neighbours within a few times of it are found at once. With `signature_id`, launches
    of other signatures are passed over. `times` goes so many launches on.
    """

    direction: Direction
    start_ns: int
    launch_index: int
    reach_ns: int
    signature_id: str | None = None
    times: int = 1


def neighbour(con: Connection, shown: Axis, selection: Selection, lane: Lane, step: Step) -> Row | None:
    """The selected launch of `lane` that `step` leads to: the last one where there are fewer than its `times`.

    `steps` of the row says how many launches on it is.
    """
    trace = shown.traces[lane.number]
    forward = step.direction == "next"
    limit = trace.last_ns + 1 if forward else trace.first_ns - 1
    near = step.start_ns + NEARBY * step.reach_ns * (1 if forward else -1)
    same = {name: getattr(step, name) for name in ("start_ns", "launch_index", "signature_id", "times")}
    found: list[Place] = []
    for bound in (near, limit):
        params = {**_keys(shown, lane), **same, "bound_ns": bound}
        found = _places(con, f"tui_timeline_{step.direction}", params, selection)
        if len(found) == step.times:
            break
    launch = _told(con, found[-1:])
    return None if launch is None else {**launch, "steps": len(found)}


def launch(con: Connection, selection: Selection, trace_id: str, launch_index: int) -> Row | None:
    """One launch."""
    params = {"trace_id": trace_id, "launch_index": launch_index, "signature_id": None}
    return _told(con, _places(con, "tui_timeline_launch", params, selection))


def first_of(con: Connection, selection: Selection, signature_id: str) -> Row | None:
    """The first selected launch of a signature."""
    params = {"trace_id": None, "launch_index": None, "signature_id": signature_id}
    return _told(con, _places(con, "tui_timeline_launch", params, selection))


def labels(
    con: Connection, shown: Axis, selection: Selection, stretch: Stretch, least_ns: int, most: int
) -> list[Label]:
    """The launches of at least `least_ns` in the stretch, at most `most` of them, the longest."""
    found = []
    params = {**_placed(shown, stretch), "least_ns": least_ns, "most": most}
    all_laned = con.sql(statement("tui_timeline_laned_all")) if _takes_all(selection) else None
    for row in _laned(con, "tui_timeline_labels", params, selection, all_laned):
        process = row["process"] if shown.several else None
        lane = Lane(row["number"], process, row["device"], row["lane"])
        found.append(Label(lane, row["begins"], row["ends"], row["label"], row["category"]))
    return found


def _places(con: Connection, name: str, params: Mapping[str, Any], selection: Selection) -> list[Place]:
    """The launches that a statement finds, which reads `laned`: those of `selection` with their lanes.

    A missing WHERE needs none of the columns of `kernels`, which take the engine longer to plan than to read.
    """
    every = con.sql(statement("tui_timeline_places_all")) if _takes_all(selection) else None
    return [(row["trace_id"], row["launch_index"]) for row in _laned(con, name, params, selection, every)]


def _told(con: Connection, places: Sequence[Place]) -> Row | None:
    """What the timeline tells about the first of the launches; None where there is none."""
    for trace_id, launch_index in places:
        (found,) = rows(con, "tui_timeline_told", {"trace_id": trace_id, "launch_index": launch_index})
        return found
    return None


def _laned(
    con: Connection, name: str, params: Mapping[str, Any], selection: Selection, launches: Relation | None = None
) -> list[Row]:
    """The rows of a statement that reads `laned`: the launches of `selection` with their lanes; or `launches`."""
    con.register(LANED, ask(con, "tui_timeline_laned", None, selection) if launches is None else launches)
    return rows(con, name, params)


def lane_of(shown: Axis, row: Row) -> Lane:
    """The lane of a launch that one of these functions found."""
    number = next(place for place, one in enumerate(shown.traces) if one.trace_id == row["trace_id"])
    process = row["process"] if shown.several else None
    return Lane(number, process, row["device"], row["lane"])
