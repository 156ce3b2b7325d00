"""What stands beside the launches of a timeline: threads of the host, counters, idle times, the critical path.

As in `timeline`, all functions take a connection, and times are in ns of the axis.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final, Literal

from kerneldb.api import timeline
from kerneldb.api.queries import rows, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kerneldb.api.queries import Connection, Relation, Row
    from kerneldb.api.timeline import Axis, Stretch

Kind = Literal["idle", "critical path", "annotations", "Python", "operators", "API calls", "counter"]

HOST: Final[tuple[Kind, ...]] = ("annotations", "Python", "operators", "API calls")
LINKED: Final[frozenset[Kind]] = frozenset({"operators", "API calls"})
"""What leads to launches."""
MOST: Final = 20_000
"""Events of the host that are drawn one by one."""
MOST_SUMMED: Final = 500_000
"""With more launches in view than this, short events of the host are not summed."""
MOST_CAUSES: Final = 200_000
"""With more launches on the axis than this, the cause of an idle time is looked up when it is gone to."""
MOST_GAPS: Final = 20_000
NEAR: Final = "near"


@dataclasses.dataclass(frozen=True, slots=True)
class Track:
    """A row of events. `number` is the place of the trace in `Axis.traces`; `device` is that of idle times.

    Of one row of several, `depth` is that of its events.
    """

    number: int
    kind: Kind
    process: str | None = None
    thread: str | None = None
    device: int | None = None
    name: str = ""
    depth: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event of a track; `depth` is the number of events around it. `id` is its number among those of its kind."""

    begins_ns: int
    ends_ns: int
    text: str
    depth: int = 0
    id: int | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """What a track shows: events, outer ones first, and how full bins are of what is too short to be one of them."""

    events: Sequence[Event] = ()
    shares: Mapping[int, float] = dataclasses.field(default_factory=dict)
    most: float | None = None
    unit: str | None = None


Lines = dict[Track, Line]
Gap = tuple[Track, Event]


def _keys(shown: Axis, stretch: Stretch, *names: str) -> Row:
    placed = timeline.placed(shown, stretch)
    return {name: placed[name] for name in ("traces", "shifts", *names)}


def host(con: Connection, shown: Axis, stretch: Stretch, least_ns: int, *, sums: bool) -> Lines:
    """What threads of the host did: events of at least `least_ns`, and with `sums` how full of others the bins are."""
    names = "numbers", "first_ns", "last_ns", "lowest_ns", "highest_ns"
    params = {
        **_keys(shown, stretch, *names),
        "least_ns": least_ns,
        "step_ns": stretch.step_ns,
        "most": MOST,
        "sums": sums,
    }
    found: dict[Track, list[Row]] = {}
    for row in rows(con, "tui_timeline_host", params):
        track = Track(row["number"], row["kind"], row["process"], row["thread"])
        found.setdefault(track, []).append(row)
    return {track: _line(lines, stretch) for track, lines in found.items()}


def within(con: Connection, shown: Axis, track: Track, span: tuple[int, int]) -> Sequence[Event]:
    """The events of a thread in a span, however short."""
    found = host(con, shown, timeline.Stretch(span[0], max(span[1] - span[0], 1), 1), 0, sums=False)
    return found.get(dataclasses.replace(track, depth=None), Line()).events


def _line(found: Sequence[Row], stretch: Stretch) -> Line:
    shares: dict[int, float] = {}
    for row in found:
        if row["name"] is None:
            place = (row["begins"] - stretch.first_ns) // stretch.step_ns
            shares[place] = min((row["ends"] - row["begins"]) / stretch.step_ns, 1.0)
    return Line(nested(row for row in found if row["name"] is not None), shares)


def nested(found: Iterable[Row]) -> list[Event]:
    """Events with the number of those that are open when each begins, in order of their begin, outer ones first."""
    events, opened = [], list[int]()
    for row in sorted(found, key=lambda row: (row["begins"], -row["ends"], row["name"], row["id"] or 0)):
        while opened and opened[-1] <= row["begins"]:
            opened.pop()
        events.append(Event(row["begins"], row["ends"], row["name"], len(opened), row["id"]))
        opened.append(row["ends"])
    return events


def counters(con: Connection, shown: Axis, stretch: Stretch) -> Lines:
    """Counters by bin, as shares of the largest value of the trace: each holds until the next."""
    params = {**_keys(shown, stretch, "numbers", "first_ns", "last_ns"), "step_ns": stretch.step_ns}
    found: Lines = {}
    for (number, name), group in itertools.groupby(
        rows(con, "tui_timeline_counters", params), lambda row: (row["number"], row["name"])
    ):
        held = list(group)
        most = max(row["value"] for row in held)
        values = {row["bin"]: row["value"] for row in held if row["bin"] is not None}
        shares, last = {}, values.get(-1)
        for place in range(stretch.bins):
            last = values.get(place, last)
            if last is not None and last > 0:
                shares[place] = last / most
        found[Track(number, "counter", name=name)] = Line((), shares, most, held[0]["unit"])
    return found


def gaps(con: Connection, shown: Axis, stretch: Stretch, *, causes: bool) -> list[Gap]:
    """Times of a stretch without a launch on a device, the longest first, with their `causes` or not."""
    params: Row = {**_keys(shown, stretch, "numbers"), "most": MOST_GAPS}
    span = _keys(shown, stretch, "first_ns", "last_ns")
    if not causes:
        return _gaps(rows(con, "tui_timeline_longest", params | span))
    con.register(NEAR, _near(con, span))
    return _gaps(rows(con, "tui_timeline_gaps", params))


def _near(con: Connection, span: Row) -> Relation:
    return con.sql(statement("tui_timeline_near"), params=span)


def _gaps(found: Sequence[Row]) -> list[Gap]:
    return [
        (
            Track(row["number"], "idle", device=row["device"]),
            Event(row["begins"], row["ends"], row["cause"] or "idle", facts=row),
        )
        for row in found
    ]


def path(shown: Axis, steps: Iterable[Row]) -> Lines:
    """The critical path (steps by the clocks of their traces) as a track of each trace."""
    numbers = {one.trace: number for number, one in enumerate(shown.traces)}
    found: dict[Track, list[Event]] = {}
    for step in steps:
        number = numbers[step["trace"]]
        begins = step["start_ns"] + shown.traces[number].shift_ns
        told = step["call"] or (step["op"] if step["part"] == "host" else step["kernel"]) or ""
        text = f"{step['part']}: {step['cause']}" + (f", {told}" if told else "")
        event = Event(begins, begins + step["duration_ns"], text, facts=step)
        found.setdefault(Track(number, "critical path"), []).append(event)
    return {track: Line(sorted(events, key=lambda one: one.begins_ns)) for track, events in found.items()}


def ended_by(con: Connection, shown: Axis, track: Track, gap: Event) -> Row | None:
    """The launch that ended an idle time, as the timeline tells of launches."""
    placed = shown.traces[track.number]
    start = {"trace_id": placed.trace_id, "device": track.device, "start_ns": gap.ends_ns - placed.shift_ns}
    return timeline.told(con, rows(con, "tui_timeline_after", start))


def launched(con: Connection, shown: Axis, track: Track, event: Event) -> tuple[Row, int, int] | None:
    """The first launch that a call or an operator led to, how many there are, and their time."""
    if event.id is None or track.kind not in LINKED:
        return None
    params = {"trace_id": shown.traces[track.number].trace_id, "id": event.id, "kind": track.kind}
    found = rows(con, "tui_timeline_linked", params)
    if not found:
        return None
    first = timeline.told(con, [{"trace_id": params["trace_id"], "launch_index": found[0]["launch_index"]}])
    return None if first is None else (first, found[0]["n"], found[0]["total_ns"])


def summed(con: Connection, shown: Axis, stretch: Stretch, most: int) -> list[Row]:
    """Launches, operators and calls of a range by name: `kind`, `name`, `n`, `total_ns`, `most` of each kind."""
    return rows(con, "tui_timeline_range", {**_keys(shown, stretch, "first_ns", "last_ns"), "most": most})


def search(con: Connection, shown: Axis, text: str, at_ns: int, *, forward: bool) -> Row | None:
    """The next launch or event of the host from `at_ns` on, or before it, with `text` in its name."""
    places = _keys(shown, shown.stretch(0, shown.end_ns, 1), "numbers")
    found = rows(con, "tui_timeline_search", {**places, "text": text.lower(), "at_ns": at_ns, "forward": forward})
    return found[0] if found else None
