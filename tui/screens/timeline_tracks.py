"""The rows of a timeline beside its launches: idle times, the critical path, threads of the host, counters."""

from __future__ import annotations

import dataclasses
import zlib
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.tracks import HOST, LINKED, Line, Track
from kerneldb.tui.numbers import amount, cut, duration, figure, safe, several
from kerneldb.tui.widgets.gantt import Cell, Row, clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kerneldb.api.timeline import Axis, Lane, Stretch
    from kerneldb.api.tracks import Event, Lines
    from kerneldb.tui.theme import Hue

    Stop = Lane | Track
    """A row that the cursor goes to."""
    Placed = tuple[Row, Stop | None]

SPAN_HUES: Final[tuple[Hue, ...]] = ("cyan", "magenta", "yellow", "green", "orange", "blue")
OTHER_CAUSE: Final[Hue] = "green"
"""Causes that share what hue is left: their letters tell them apart, as they do those two of the queue."""
IDLE_HUES: Final[dict[str, Hue]] = {
    "launching": "red", "synchronisation": "orange", "allocation": "yellow", "blocking copy": "cyan",
    "data loading": "magenta", "launch latency": "grey", "between launches": "grey", "dependency": "blue",
}  # fmt: skip
LETTERS: Final = {"blocking copy": "c", "loading code": "m", "launch latency": "q", "dependency": "w"}
"""Of causes of idle time that begin like another one."""
DEEPEST: Final = 12
MOST_THREADS: Final = 8
"""Threads of a trace that are shown: those with the most of their time in events."""
LONGEST: Final = 33
"""Characters of a name in the table of a range, which has the width of a window."""
SHORTEST: Final = 0.75
"""Events of less than this part of a column are summed."""
LITTLE: Final = 1 / 8
"""A column that is idle for less of its time is blank; from there on a block is as high as that part."""
MOSTLY: Final = 0.5
"""From this part on it has the letter of the cause."""
LABELS: Final = {"annotations": "annotated", "API calls": "API calls", "critical path": "critical"}


class Tracks:
    """What stands beside the launches: `known` tracks keep their row where the view holds nothing of them.

    With `deep`, nested events have rows of their own, else the innermost is seen; `chosen` says that somebody decided.
    """

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.deep = self.chosen = False
        self.lines: Lines = {}
        self._known: dict[Track, int] = {}
        """The deepest event of each track so far."""
        self._busy: dict[tuple[int, str | None, str | None], int] = {}
        self._cells: dict[tuple[Track, int | None], dict[int, Cell]] = {}
        self._stretch: Stretch | None = None

    def add(self, lines: Mapping[Track, Line]) -> None:
        """Take what is in view now; what of other kinds was known stays."""
        kinds = {track.kind for track in lines}
        self.lines = {track: line for track, line in self.lines.items() if track.kind not in kinds} | dict(lines)
        for track, line in lines.items():
            deepest = max((one.depth for one in line.events), default=0)
            self._known[track] = max(self._known.get(track, 0), min(deepest, DEEPEST - 1))
            place = track.number, track.process, track.thread
            self._busy[place] = max(self._busy.get(place, 0), sum(one.ends_ns - one.begins_ns for one in line.events))
        if self._stretch is not None:
            self.paint(self._stretch)

    def paint(self, stretch: Stretch) -> None:
        """Make the cells of a stretch."""
        moved = stretch != self._stretch
        self._stretch, self._cells = stretch, {}
        if moved:  # bins of another stretch say nothing of this one
            self.lines = {
                track: line if track.kind == "counter" else dataclasses.replace(line, shares={})
                for track, line in self.lines.items()
            }
        for track, line in self.lines.items():
            depths = range(self._known[track] + 1) if self.deep and track.kind in HOST else (None,)
            for depth in depths:
                painted = _idle(line, stretch) if track.kind == "idle" else _painted(line, stretch, depth)
                self._cells[track, depth] = painted

    def unfold(self, room: int) -> None:
        """Give nested events rows of their own where there are at most `room` more rows then, unless it was chosen."""
        tracks = [track for number in range(len(self.axis.traces)) for track in self._hosts(number)]
        deep = sum(self._known[track] for track in tracks) <= room
        if self.chosen or deep == self.deep:
            return
        self.deep = deep
        if self._stretch is not None:
            self.paint(self._stretch)

    def _hosts(self, number: int) -> list[Track]:
        """The tracks of the threads of a trace that are shown."""
        shown = self._threads(number)
        return [one for one in self._known if one.kind in HOST and (one.number, one.process, one.thread) in shown]

    def of_trace(self, number: int) -> list[Placed]:
        """The critical path, where it was asked for."""
        return [self._row(track) for track in self._known if track == Track(number, "critical path")]

    def of_device(self, number: int, device: int | None) -> list[Placed]:
        """When the device was idle, and why."""
        return [self._row(track) for track in self._known if track == Track(number, "idle", device=device)]

    def of_hosts(self, launched: Collection[int] = ()) -> list[Placed]:
        """Threads and counters of all traces: below all lanes, so that those of several ranks stay together.

        Those that `launched` what is selected come first: others would push their threads off the screen.
        """
        rows: list[Placed] = []
        for number in sorted(range(len(self.axis.traces)), key=lambda number: number not in launched):
            for place in self._threads(number):
                rows.append((Row("header", self._thread(*place)), None))
                tracks = [track for track in self._known if (track.number, track.process, track.thread) == place]
                for track in sorted((one for one in tracks if one.kind in HOST), key=lambda one: HOST.index(one.kind)):
                    rows += self._levels(track)
            counters = [track for track in self._known if track.number == number and track.kind == "counter"]
            if counters:
                rows.append((Row("header", safe(f"{self.axis.traces[number].trace} · counters")), None))
                rows += [self._row(track) for track in counters]
        return rows

    def _threads(self, number: int) -> list[tuple[int, str | None, str | None]]:
        """The threads that are shown; those that only wait in Python come after those that call something."""
        places = {(one.number, one.process, one.thread) for one in self._known if one.kind in HOST}
        mine = [place for place in places if place[0] == number]
        chosen = sorted(mine, key=lambda place: (-self._busy[place], str(place)))[:MOST_THREADS]
        calling = {(one.number, one.process, one.thread) for one in self._known if one.kind in LINKED}
        return sorted(chosen, key=lambda place: (_is_unknown(place[1]), place not in calling, str(place)))

    def _thread(self, number: int, process: str | None, thread: str | None) -> str:
        left = len({(o.process, o.thread) for o in self._known if o.kind in HOST and o.number == number}) - MOST_THREADS
        more = f" · {several(left, 'more thread')} not shown" if left > 0 else ""
        whose = "no process" if process is not None and _is_unknown(process) else f"process {process or '?'}"
        return safe(f"{self.axis.traces[number].trace} · host · {whose} · thread {thread or '?'}{more}")

    def _levels(self, track: Track) -> list[Placed]:
        if not self.deep:
            return [self._row(track)]
        return [self._row(track, depth) for depth in range(self._known[track] + 1)]

    def _row(self, track: Track, depth: int | None = None) -> Placed:
        line = self.lines.get(track, Line())
        shown = self._cells.get((track, depth), {})
        stop = dataclasses.replace(track, depth=depth)
        if track.kind == "counter":
            label, note = f" {track.name}", _value(line.most, line.unit)
            return Row("counter", label, note, shown, hues={"": "blue"}), stop
        names = {cell.category for cell in shown.values() if cell.category is not None}
        label = LABELS.get(track.kind, track.kind) if not depth else ""
        if track.kind == "idle":
            letters = {name: LETTERS.get(name, name[:1]) for name in names}
            hues = {name: IDLE_HUES.get(name, OTHER_CAUSE) for name in names}
            return Row("spans", f" {label}", cells=shown, hues=hues, letters=letters), stop
        hues = {name: SPAN_HUES[zlib.crc32(name.encode()) % len(SPAN_HUES)] for name in names}
        return Row("spans", f" {label}", cells=shown, hues=hues, frames=track.kind == "Python"), stop

    def causes(self, track: Track) -> dict[str | None, int]:
        """How much of what is in view a device was idle for each cause, in ns."""
        found: dict[str | None, int] = {}
        if self._stretch is not None:
            for one in self.lines.get(dataclasses.replace(track, depth=None), Line()).events:
                ns = min(one.ends_ns, self._stretch.last_ns) - max(one.begins_ns, self._stretch.first_ns)
                if ns > 0:
                    found[one.text] = found.get(one.text, 0) + ns
        return found

    def at(self, track: Track, span: tuple[int, int], time_ns: int) -> Event | None:
        """The event of a track at a time: the innermost, else the longest of those in the `span` of its column."""
        events = self.lines.get(dataclasses.replace(track, depth=None), Line()).events
        here = [one for one in events if one.begins_ns < span[1] and one.ends_ns > span[0]]
        return inmost([one for one in here if track.depth in {None, one.depth}], time_ns)


def _is_unknown(process: str | None) -> bool:
    """Whether a process is none: what profilers give a number below 0, or no number."""
    return process is None or process.startswith("-")


def inmost(events: Sequence[Event], time_ns: int) -> Event | None:
    """The innermost event at a time; where there is none then, the longest."""
    around = [one for one in events if one.begins_ns <= time_ns < one.ends_ns]
    if around:
        return max(around, key=lambda one: (one.depth, one.begins_ns))
    return max(events, key=lambda one: one.ends_ns - one.begins_ns, default=None)


def _painted(line: Line, stretch: Stretch, depth: int | None) -> dict[int, Cell]:
    """Cells by column: inner events over outer ones, short ones where there is nothing else."""
    cells = {} if depth else {place: Cell(share, None) for place, share in line.shares.items()}
    if not line.events and line.most is not None:
        return cells
    least = stretch.step_ns * SHORTEST
    for number, one in enumerate(line.events):
        if depth is not None and one.depth != depth:
            continue
        if one.begins_ns >= stretch.last_ns or one.ends_ns <= stretch.first_ns:
            continue
        first = max((one.begins_ns - stretch.first_ns) // stretch.step_ns, 0)
        last = min(-(-(one.ends_ns - stretch.first_ns) // stretch.step_ns), stretch.bins)
        wide = one.ends_ns - one.begins_ns >= least
        for column in range(first, max(last, first + 1)):
            if wide or column not in cells:
                cells[column] = Cell(1, one.text, number + 1)
    return cells


def _idle(line: Line, stretch: Stretch) -> dict[int, Cell]:
    """Cells of idle times by column: as high as the part of it that is idle, in the colour of the main cause."""
    spent: dict[int, dict[str, int]] = {}
    spans: dict[int, int] = {}
    for number, one in enumerate(line.events, 1):
        begins, ends = max(one.begins_ns, stretch.first_ns), min(one.ends_ns, stretch.last_ns)
        for column in range((begins - stretch.first_ns) // stretch.step_ns, stretch.bins):
            first = stretch.first_ns + column * stretch.step_ns
            if first >= ends:
                break
            ns = min(ends, first + stretch.step_ns) - max(begins, first)
            causes = spent.setdefault(column, {})
            causes[one.text] = causes.get(one.text, 0) + ns
            if ns >= stretch.step_ns * MOSTLY:
                spans[column] = number
    cells = {}
    for column, causes in spent.items():
        share = min(sum(causes.values()) / stretch.step_ns, 1.0)
        if share >= LITTLE:
            main = max(causes, key=lambda cause: causes[cause])
            # What is made of several times is a span of its own in each column.
            event = spans.get(column, -column - 1)
            cells[column] = Cell(1 if share >= MOSTLY else share, main, event)
    return cells


def nearest(placed: Sequence[Stop | None], stop: Stop) -> int:
    """The row of the same track at another depth; else the first."""
    for row, one in enumerate(placed):
        if not (isinstance(stop, Track) and isinstance(one, Track)):
            continue
        if dataclasses.replace(one, depth=None) == dataclasses.replace(stop, depth=None):
            return row
    return 0


def _value(value: float | None, unit: str | None) -> str:
    if value is None:
        return ""
    return amount(value, "B") if unit == "bytes" else f"{figure(value)} {unit or ''}".strip()


def table(rows: Sequence[Mapping[str, Any]], idle: Iterable[Event], first_ns: int, last_ns: int) -> str:
    """A range as lines: idle time by cause, then launches, operators and calls by name."""
    span = max(last_ns - first_ns, 1)
    causes: dict[str, int] = {}
    for one in idle:
        if (ns := min(one.ends_ns, last_ns) - max(one.begins_ns, first_ns)) > 0:
            causes[one.text] = causes.get(one.text, 0) + ns
    listed: list[tuple[str, str, int | None, int]] = [
        ("idle", cause, None, ns) for cause, ns in sorted(causes.items(), key=lambda one: -one[1])
    ]
    listed += [(row["kind"], row["name"], row["n"], row["total_ns"]) for row in rows]
    title = f"{duration(span)} from {clock(first_ns, 1)}; % of it, all GPUs and streams together"
    lines = [title, "", f"{'':9}{'time':>10}{'%':>7}{'n':>9}  name"]
    for kind, name, n, ns in listed:
        number = "" if n is None else format(n, ",")
        lines.append(f"{kind:9}{duration(ns):>10}{100 * ns / span:7.1f}{number:>9}  {cut(safe(name), LONGEST)}")
    return "\n".join(lines)
