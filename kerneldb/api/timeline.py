"""What a timeline shows: traces on a common axis, bins of their lanes, and single launches.

All functions take a connection, and times in ns. A lane is what runs launches one after the other: a
stream of a device, or, where a trace names no streams, a queue.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

from kerneldb.api.queries import has_condition, rows, statement
from kerneldb.schemas import loader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.api.queries import Connection, Row
    from kerneldb.selection import Selection


Direction = Literal["next", "previous"]

ACTIVITIES: Final = "activities"
LANED: Final = "laned"
PHASES: Final = 0
MODULES: Final = 2
"""Codes of the lanes of `tui_timeline_named`."""
LEAST_GRAINS: Final = 12
"""Bins of everything are a multiple of the stored ones where that makes the chart at most a twelfth longer."""
NEARBY: Final = 16
"""A neighbour is looked for within so many times the visible range first: the engine skips the rest then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A trace on the axis: an event at `start_ns` of the trace is at `start_ns + shift_ns` of the axis.

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

    def beside(self, other: Seen) -> Seen:
        """These lanes and those of other traces."""
        times = dict(self.categories)
        for category, ns in other.categories.items():
            times[category] = times.get(category, 0) + ns
        return Seen({**self.lanes, **other.lanes}, times)


@dataclasses.dataclass(frozen=True, slots=True)
class Names:
    """What launches of a stretch were part of: bins by place of the trace and number of the bin."""

    phases: Mapping[int, Mapping[int, Bin]] = dataclasses.field(default_factory=dict)
    modules: Mapping[int, Mapping[int, Bin]] = dataclasses.field(default_factory=dict)


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
    fields = [field.name for field in dataclasses.fields(Placed)]
    placed = tuple(Placed(**{name: row[name] for name in fields}) for row in found if row["reason"] is None)
    left_out = tuple((row["trace"], row["reason"]) for row in found if row["reason"] is not None)
    return Axis(placed, any(row["aligned"] for row in found), left_out)


def beginning(con: Connection, known: Axis | None, selection: Selection, columns: int) -> tuple[Axis, Seen]:
    """The axis (`known`, where it is) of a selection and everything on it, in as many bins as there are `columns`."""
    shown = known or axis(con, selection.traces)
    return shown, lanes(con, shown, selection, shown.stretch(0, shown.end_ns, columns))


def lanes(con: Connection, shown: Axis, selection: Selection, stretch: Stretch) -> Seen:
    """The selected launches of a stretch, in bins; those of whole traces from stored bins, where these serve."""
    if has_condition(selection.where):
        return _scanned(con, shown, selection, stretch)
    stored = shown.stored(stretch)
    found = Seen()
    if stored:
        params = {
            "traces": [shown.traces[place].trace_id for place in stored],
            "numbers": list(stored),
            "step_ns": stretch.step_ns,
            "several": shown.several,
        }
        found = _binned(con, "tui_timeline_stored", params)
    if scanned := [place for place in range(len(shown.traces)) if place not in stored]:
        numbered = None, *(row["category"] for row in rows(con, "tui_timeline_categories"))
        found = found.beside(_scanned(con, shown, selection, stretch, numbered, scanned))
    return found


def names(con: Connection, shown: Axis, selection: Selection, stretch: Stretch) -> Names:
    """The bins of the phases of a stretch, and of the modules that launched: `Bin.category` is the name here."""
    _bind(con, ACTIVITIES, selection, "tui_timeline_named_all", "tui_timeline_named")
    found: dict[int | None, dict[int, Mapping[int, Bin]]] = {PHASES: {}, MODULES: {}}
    for lane, bins in _spread(con, shown, stretch).lanes.items():
        found[lane.code][lane.number] = bins
    return Names(found[PHASES], found[MODULES])


def _bind(con: Connection, name: str, selection: Selection, everything: str, chosen: str) -> None:
    """Make the launches of `selection` known as `name`: the rows of the statement `chosen`, which reads them.

    A missing WHERE needs no filter, since the axis picks the traces, and none of the columns of `kernels`, which take
    the engine longer to plan than to read: then the statement `everything` is used.
    """
    shown = everything
    if has_condition(selection.where):
        selection.bind(con)
        shown = chosen
    con.execute(loader.statement("timeline", "bind").format(name=name, rows=statement(shown)))


def _scanned(
    con: Connection,
    shown: Axis,
    selection: Selection,
    stretch: Stretch,
    numbered: Sequence[str | None] | None = None,
    places: Sequence[int] | None = None,
) -> Seen:
    """The selected launches of a stretch (of the traces at `places`; None: all), read one by one.

    `numbered` are the categories by their numbers in `tui_timeline_launches_all` (0: none), if that is what is read.
    """
    _bind(con, ACTIVITIES, selection, "tui_timeline_launches_all", "tui_timeline_launches")
    return _spread(con, shown, stretch, numbered, places)


def _spread(
    con: Connection,
    shown: Axis,
    stretch: Stretch,
    numbered: Sequence[str | None] | None = None,
    places: Sequence[int] | None = None,
) -> Seen:
    """What `activities` holds of the stretch, as `_scanned` says."""
    if not shown.traces:
        return Seen()
    whole = stretch.first_ns <= 0 and stretch.last_ns > shown.end_ns
    params = {"step_ns": stretch.step_ns, "whole": whole, "several": shown.several}
    return _binned(con, "tui_timeline_paired", placed(shown, stretch, places) | params, numbered)


def _binned(con: Connection, name: str, params: Row, numbered: Sequence[str | None] | None = None) -> Seen:
    """The bins that a statement finds; `numbered` as in `_scanned`."""
    bins: dict[Lane, dict[int, Bin]] = {}
    categories: dict[str | None, int] = {}
    for number, process, device, lane, place, busy, found, n in con.execute(statement(name), params).fetchall():
        category = found if numbered is None else numbered[found or 0]
        if place is None:
            categories[category] = busy
        else:
            bins.setdefault(Lane(number, process, device, lane), {})[place] = Bin(busy, category, n)
    return Seen(bins, categories)


def placed(shown: Axis, stretch: Stretch, places: Sequence[int] | None = None) -> Row:
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
    trace_id = shown.traces[lane.number].trace_id
    return {"trace_id": trace_id, "process": lane.process, "device": lane.device, "lane": lane.code}


def at(con: Connection, shown: Axis, selection: Selection, lane: Lane, span: tuple[int, int]) -> Row | None:
    """The selected launch of `lane` that ran longest in the `span` of the axis."""
    shift = shown.traces[lane.number].shift_ns
    params = {**_keys(shown, lane), "first_ns": span[0] - shift, "last_ns": span[1] - shift}
    return told(con, _places(con, "tui_timeline_at", params, selection))


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
    found: list[Row] = []
    for bound in (near, limit):
        params = {**_keys(shown, lane), **same, "bound_ns": bound}
        found = _places(con, f"tui_timeline_{step.direction}", params, selection)
        if len(found) == step.times:
            break
    launch = told(con, found[-1:])
    return None if launch is None else {**launch, "steps": len(found)}


def launch(con: Connection, selection: Selection, trace_id: str, launch_index: int) -> Row | None:
    """One launch."""
    params = {"trace_id": trace_id, "launch_index": launch_index, "signature_id": None}
    return told(con, _places(con, "tui_timeline_launch", params, selection))


def first_of(con: Connection, selection: Selection, signature_id: str) -> Row | None:
    """The first selected launch of a signature."""
    params = {"trace_id": None, "launch_index": None, "signature_id": signature_id}
    return told(con, _places(con, "tui_timeline_launch", params, selection))


def longest_of(con: Connection, selection: Selection, signature_id: str, trace: str | None = None) -> Row | None:
    """The longest selected launch of a signature in a trace (None: any); `n` of the row: of how many it is the longest.

    Where the call of any of these launches is known, it is one of those.
    """
    found = _places(con, "tui_timeline_longest_of", {"signature_id": signature_id, "trace": trace}, selection)
    longest = told(con, found)
    return None if longest is None else {**longest, "n": found[0]["n"]}


def labels(
    con: Connection, shown: Axis, selection: Selection, stretch: Stretch, least_ns: int, most: int
) -> list[Label]:
    """The launches of at least `least_ns` in the stretch, at most `most` of them, the longest."""
    params = {**placed(shown, stretch), "least_ns": least_ns, "most": most}
    _bind(con, LANED, selection, "tui_timeline_laned_all", "tui_timeline_laned")
    return [
        Label(_lane(shown, row["number"], row), row["begins"], row["ends"], row["label"], row["category"])
        for row in rows(con, "tui_timeline_labels", params)
    ]


def _places(con: Connection, name: str, params: Mapping[str, Any], selection: Selection) -> list[Row]:
    """The trace id and launch index of what a statement finds, which reads `laned`: the launches with their lanes."""
    _bind(con, LANED, selection, "tui_timeline_places_all", "tui_timeline_laned")
    return rows(con, name, params)


def told(con: Connection, places: Sequence[Row]) -> Row | None:
    """What the timeline shows about the first of the launches, its `caller` and what was `around` it; None: of none.

    Of a collective its `exchange` says what it moves and for whom it waited.
    """
    if not places:
        return None
    place = {name: places[0][name] for name in ("trace_id", "launch_index")}
    (found,) = rows(con, "tui_timeline_told", place)
    is_collective = found["category"] == "COMMUNICATION"
    found["exchange"] = next(iter(rows(con, "tui_timeline_waits", place)), None) if is_collective else None
    caller = _place(con, "tui_timeline_caller", found["trace_id"], api_index=found["api_index"])
    host = caller or _place(con, "tui_timeline_operator", found["trace_id"], op_id=found["op_id"])
    return {**found, "caller": caller, "around": host and around(con, found["trace_id"], host)}


def _place(con: Connection, name: str, trace_id: str, **number: int | None) -> Row | None:
    """The thread and the begin of the call or operator of that number; None where there is none."""
    if None in number.values():
        return None
    return next(iter(rows(con, name, {"trace_id": trace_id, **number})), None)


def around(con: Connection, trace_id: str, place: Row) -> Row:
    """What was open in a thread at a time (`process`, `thread`, `start_ns` of `place`): operators, module, frames.

    Where a thread of autograd has no frames, they are those of the forward call, and `is_forward`.
    """
    found = _open(con, trace_id, place)
    if found["frame"] is None and found["forward_op_id"] is not None:
        forward = _place(con, "tui_timeline_operator", trace_id, op_id=found["forward_op_id"])
        if forward is not None:
            there = _open(con, trace_id, forward)
            found |= {name: there[name] for name in ("frame", "line")} | {"module": found["module"] or there["module"]}
            found["is_forward"] = there["frame"] is not None
    return found


def _open(con: Connection, trace_id: str, place: Row) -> Row:
    where = {"trace_id": trace_id, "process": place["process"], "thread": place["thread"], "ts_ns": place["start_ns"]}
    return {**rows(con, "tui_timeline_around", where)[0], "is_forward": False}


def lane_of(shown: Axis, row: Row) -> Lane:
    """The lane of a launch that one of these functions found."""
    return _lane(shown, [one.trace_id for one in shown.traces].index(row["trace_id"]), row)


def _lane(shown: Axis, number: int, row: Row) -> Lane:
    return Lane(number, row["process"] if shown.several else None, row["device"], row["lane"])
