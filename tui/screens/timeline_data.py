"""What the timeline shows: its queries, perhaps before there are widgets, and the rows of the Gantt made of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api import close_up, timeline
from kerneldb.api.timeline import Lane, Names, Seen
from kerneldb.api.tracks import Track
from kerneldb.tui.numbers import percent, safe
from kerneldb.tui.screens.timeline_tracks import SPAN_HUES, Tracks, nearest
from kerneldb.tui.widgets.gantt import Cell, Name, Picture, Row

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kerneldb.api.close_up import CloseUp
    from kerneldb.api.queries import Connection
    from kerneldb.api.timeline import Axis, Bin, Label, Stretch
    from kerneldb.selection import Selection
    from kerneldb.tui.screens.timeline_tracks import Placed, Stop
    from kerneldb.tui.store import Store

    Bins = Mapping[int, Bin]
    Asked = tuple[object, Selection, int]
    Found = tuple[Axis, Seen]

MOST_NAMED: Final = 100_000
"""With more launches in view than this, none is wide enough to be worth looking for its name."""
NAMES: Final = 400
LEAST_NAMED_CELLS: Final = 5
KEPT: Final = 8
"""So many Selections can be gone back to without asking again."""


class FirstView:
    """Asks for the axis of a selection and what lies on it.

    The axis depends on the traces alone, so it stays known for as long as the file has the same contents; so do the
    last few answers.
    """

    def __init__(self) -> None:
        self._axis: tuple[object, tuple[str, ...], Axis] | None = None
        self._ahead: tuple[Asked, asyncio.Task[Found]] | None = None
        self._kept: dict[Asked, Found] = {}

    def prefetch(self, store: Store, selection: Selection, columns: int) -> None:
        """Ask now, before it is needed; `get` awaits it where the question and the contents are the same."""
        asked = store.version(), selection, columns
        if asked in self._kept or self._awaited(asked) is not None:
            return
        known = self._known_axis(asked)
        task = store.prefetch(lambda con: timeline.beginning(con, known, selection, columns))

        def keep(task: asyncio.Task[Found]) -> None:
            if not task.cancelled() and task.exception() is None:  # else whoever asks next gets the failure
                self._keep(asked, task.result())

        task.add_done_callback(keep)
        self._ahead = asked, task

    async def get(self, store: Store, selection: Selection, columns: int) -> Found:
        """The axis, and everything on it in as many bins as there are `columns`."""
        asked = store.version(), selection, columns
        ahead, self._ahead = self._awaited(asked), None
        if asked in self._kept:
            found = self._kept.pop(asked)
        elif ahead is not None:
            store.want(ahead)
            found = await ahead
        else:
            found = await store.read(timeline.beginning, self._known_axis(asked), selection, columns)
        self._keep(asked, found)
        return found

    def _awaited(self, asked: Asked) -> asyncio.Task[Found] | None:
        """The task that asks the same ahead, unless it was cancelled."""
        if self._ahead is None or self._ahead[0] != asked:
            return None
        task = self._ahead[1]
        return None if task.cancelled() or task.cancelling() else task

    def _known_axis(self, asked: Asked) -> Axis | None:
        version, selection, _ = asked
        if self._axis is None or version is None or self._axis[:2] != (version, selection.traces):
            return None
        return self._axis[2]

    def _keep(self, asked: Asked, found: Found) -> None:
        """Remember an answer, for as long as the contents are known to be the same."""
        version, selection, _ = asked
        if version is None:
            return
        self._axis = version, selection.traces, found[0]
        self._kept = {key: value for key, value in self._kept.items() if key[0] == version} | {asked: found}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """What comes after the bins: phases and modules, labels of wide launches, the launch under the cursor."""

    names: Names
    labels: list[Label]
    launch: dict[str, Any] | None


def details(
    con: Connection,
    axis: Axis,
    selection: Selection,
    stretch: Stretch,
    lane: Lane | None,
    span: tuple[int, int],
    *,
    named: bool,
    labelled: bool,
) -> Details:
    """The names of `stretch` if it is `named`, its labels if it is `labelled`, and the launch of `lane` in `span`.

    With the lane None there is no launch.
    """
    least = LEAST_NAMED_CELLS * stretch.step_ns
    return Details(
        timeline.names(con, axis, selection, stretch) if named else Names(),
        timeline.labels(con, axis, selection, stretch, least, NAMES) if labelled else [],
        timeline.at(con, axis, selection, lane, span) if lane is not None else None,
    )


def close(
    con: Connection, axis: Axis, selection: Selection, stretch: Stretch, lane: Lane | None, span: tuple[int, int]
) -> CloseUp | None:
    """The bins of `stretch`, if it holds few launches, with its details."""
    least = LEAST_NAMED_CELLS * stretch.step_ns
    return close_up.close_up(con, axis, selection, stretch, lane, span, least_ns=least, most=NAMES)


SHOWN_TRACES: Final = 3
NOTHING: Final = Seen()


def sentence_for(axis: Axis) -> str:
    """Why these traces have no timeline."""
    traces: dict[str, list[str]] = {}
    for trace, reason in axis.left_out:
        traces.setdefault(reason, []).append(trace)
    lines = ["No timeline here.", ""]
    for reason, names in traces.items():
        more = [f"{len(names) - SHOWN_TRACES} more"] if len(names) > SHOWN_TRACES else []
        lines.append(safe(f"{', '.join([*names[:SHOWN_TRACES], *more])}: {reason}"))
    return "\n".join(lines)


class Board:
    """The lanes of an axis with what is in view.

    Lanes stay, empty, where the view holds nothing of them. `is_named` is set to False once it is known that there are
    no phases and no modules anywhere.
    """

    def __init__(
        self, axis: Axis, everything: Seen = NOTHING, full: Stretch | None = None, before: Board | None = None
    ) -> None:
        self.axis = axis
        self.everything = everything
        self.full = full
        self.pinned: tuple[Lane, ...] = (
            tuple(lane for lane in before.pinned if lane in everything.lanes) if before else ()
        )
        self.view = everything
        self.stretch = full
        self.phases: Mapping[int, Bins] = {}
        self.modules: Mapping[int, Bins] = {}
        self.is_named = True
        self.is_whole = False
        self.tracks: Tracks = before.tracks if before else Tracks(axis)
        if full is not None:
            self.tracks.paint(full)
        self.labels: Sequence[Label] = ()
        self._ordered = sorted(everything.lanes, key=lambda lane: lane.order)
        self._rows: list[Placed] | None = None

    @property
    def lanes(self) -> list[Lane]:
        """All lanes from top to bottom."""
        return [*self.pinned, *(lane for lane in self._ordered if lane not in self.pinned)]

    @property
    def stops(self) -> list[Stop]:
        """All rows that the cursor goes to, from top to bottom."""
        return [stop for _, stop in self._placed() if stop is not None]

    @property
    def rows_folded(self) -> int:
        """How many rows there are where nested events have none of their own."""
        return sum(1 for _, stop in self._placed() if not (isinstance(stop, Track) and stop.depth))

    def is_close(self, stretch: Stretch) -> bool:
        """Whether a stretch is likely to hold few launches."""
        if self.full is None:
            return False
        return close_up.expected(self.axis, self.full, self.everything, stretch) <= close_up.FEW

    def see(self, view: Seen, stretch: Stretch, details: tuple[Names, Sequence[Label]] | None = None) -> None:
        """Show another part; where its names and labels are known, too, it `is_whole`."""
        self.view, self.stretch, self.labels, self.is_whole = view, stretch, (), details is not None
        if details is not None:
            self.take(*details)
        self.tracks.paint(stretch)

    def take(self, names: Names, labels: Sequence[Label]) -> None:
        """Show the names and the labels of what is in view."""
        self.phases, self.modules, self.labels = names.phases, names.modules, labels

    def pin(self, lane: Lane) -> None:
        """Move a lane to the top, or back."""
        pinned = lane in self.pinned
        self.pinned = tuple(one for one in self.pinned if one != lane) if pinned else (*self.pinned, lane)

    def title(self, lane: Lane) -> str:
        """Trace, device and stream of a lane."""
        kind = "queue" if lane.label.startswith("q") else "stream"
        return safe(f"{self._header(lane)} · {kind} {lane.label[1:] or 'not known'}")

    def row_of(self, stop: Stop) -> int:
        """The row of a lane or a track in the picture; of a track that has none the nearest of its kind."""
        placed = [one for _, one in self._placed()]
        return placed.index(stop) if stop in placed else nearest(placed, stop)

    def stop_at(self, row: int) -> Stop | None:
        """The lane or track in a row of the picture; None for headers and phases."""
        placed = self._placed()
        return placed[row][1] if row < len(placed) else None

    def picture(self) -> Picture:
        """The rows as a Gantt draws them."""
        if self.stretch is None:
            return Picture()
        return Picture(
            [row for row, _ in self._placed()],
            self.stretch.first_ns,
            self.stretch.last_ns,
            self.axis.end_ns,
            self._overview(),
        )

    def _overview(self) -> list[float]:
        """For each bin up to the end of the axis, the busiest lane."""
        if self.full is None:
            return []
        step = self.full.step_ns
        shares = [0.0] * min(self.full.bins, max(-(-self.axis.end_ns // step), 1))
        for bins in self.everything.lanes.values():
            for place, one in bins.items():
                if place < len(shares):
                    shares[place] = max(shares[place], min(one.busy_ns / step, 1.0))
        return shares

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """While nothing changes, the rows are made once."""
        self._rows = self._placed()
        try:
            yield
        finally:
            self._rows = None

    def _placed(self) -> list[Placed]:
        if self._rows is not None:
            return self._rows
        rows: list[Placed] = [(self._lane(lane, pinned=True), lane) for lane in self.pinned]
        for (number, _, device), group in itertools.groupby(
            (lane for lane in self._ordered if lane not in self.pinned),
            lambda lane: (lane.number, lane.process, lane.device),
        ):
            lanes = list(group)
            header, devices = self._header(lanes[0]), self.axis.traces[number].devices
            rows.append((Row("header", f"{header} · {devices}" if devices else header), None))
            if number not in {one.number for _, one in rows[:-1] if isinstance(one, Lane) and one not in self.pinned}:
                rows += self._named(number)
                rows += self.tracks.of_trace(number)
            rows += [(self._lane(lane, pinned=False), lane) for lane in lanes]
            rows += self.tracks.of_device(number, device)
        return rows + self.tracks.of_hosts({lane.number for lane in self.lanes})

    def _named(self, number: int) -> list[Placed]:
        """The phases and the modules of a trace."""
        rows: list[Placed] = []
        for label, found in (("phases", self.phases), ("modules", self.modules)):
            if bins := found.get(number):
                names = sorted({one.category or "" for one in bins.values()})
                hues = {name: SPAN_HUES[place % len(SPAN_HUES)] for place, name in enumerate(names)}
                rows.append((Row("phases", label, cells=self._phases(bins), hues=hues), None))
        return rows

    def _phases(self, bins: Bins) -> dict[int, Cell]:
        return {place: Cell(1, one.category) for place, one in bins.items()}

    def _header(self, lane: Lane) -> str:
        trace = self.axis.traces[lane.number]
        process = f" · process {lane.process}" if lane.process else ""
        return f"{trace.trace}{process} · GPU {'?' if lane.device is None else lane.device}"

    def _lane(self, lane: Lane, *, pinned: bool) -> Row:
        bins = self.view.lanes.get(lane, {})
        # Bins are whole, so the last ones may reach beyond the end of the axis.
        span = min(self.stretch.last_ns, self.axis.end_ns) - self.stretch.first_ns if self.stretch else 1
        busy = sum(one.busy_ns for one in bins.values())
        label = f"⚑{self._short(lane)} {self.axis.traces[lane.number].trace}" if pinned else f" {lane.label}"
        # Launches of a lane may overlap, and then take longer than there was time.
        share = min(100 * busy / max(span, 1), 100.0)
        names = []
        if self.stretch is not None:
            first, step = self.stretch.first_ns, self.stretch.step_ns
            for one in self.labels:
                if one.lane == lane:
                    begin, end = (one.begins_ns - first) // step, (one.ends_ns - first) // step
                    names.append(Name(begin, end, one.text, one.category))
        return Row("lane", label, percent(share), self._cells(bins), names)

    def _short(self, lane: Lane) -> str:
        """A lane without the header that says its device and its process."""
        one_device = len({one.device for one in self._ordered}) == 1 or lane.device is None
        label = lane.label if one_device else f"{lane.device}:{lane.label}"
        processes = {one.process or "?" for one in self._ordered if one.number == lane.number}
        return label if len(processes) == 1 else label + _apart(lane.process or "?", processes)

    def _cells(self, bins: Bins) -> dict[int, Cell]:
        step = self.stretch.step_ns if self.stretch else 1
        return {place: Cell(one.busy_ns / step, one.category) for place, one in bins.items()}


def _apart(process: str, processes: Collection[str]) -> str:
    """What distinguishes a process from the others: ids of one job begin alike, and there is little room."""
    places = zip(*processes, strict=False)
    alike = sum(1 for _ in itertools.takewhile(lambda characters: len(set(characters)) == 1, places))
    return f"…{process[alike:]}" if alike > 1 and min(map(len, processes)) > alike else f" {process}"
