"""Lanes of launches with a cursor: what is in view, and moving in it, from everything down to single launches."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final

from textual import on
from textual.widgets import Static

from kerneldb.api import timeline
from kerneldb.api.timeline import Axis, Lane, Stretch
from kerneldb.tui import theme
from kerneldb.tui.early_keys import KeyQueue, queued
from kerneldb.tui.empty_messages import why_empty
from kerneldb.tui.pane import Pane
from kerneldb.tui.screens.timeline_data import (
    MOST_NAMED,
    Board,
    FirstView,
    close,
    details,
    sentence_for,
)
from kerneldb.tui.screens.timeline_legend import legend
from kerneldb.tui.screens.timeline_words import about_gap, about_launch
from kerneldb.tui.tasks import supersede
from kerneldb.tui.widgets.gantt import Gantt, Pointer, columns_in

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.content import Content

    from kerneldb.api.tracks import Track
    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.screens.timeline_tracks import Stop
    from kerneldb.tui.widgets.table import Row

    Place = tuple[Lane | None, tuple[int, int]]
    Walk = tuple[timeline.Direction, bool]


AROUND: Final = 8
"""A launch that is jumped to takes this part of the width."""
PAN: Final = 0.25
ZOOM: Final = 0.5


class LanesPane(Pane):
    """Lanes by device and stream, with a cursor whose launch is described below.

    With a `track`, the cursor is in that row instead of a lane.
    """

    def __init__(self) -> None:
        super().__init__()
        self.axis = Axis((), aligned=False)
        self.board = Board(self.axis)
        self.first_ns = 0
        self.last_ns = 0
        self.lane: Lane | None = None
        self.track: Track | None = None
        self.cursor_ns = 0
        self.mark_ns: int | None = None
        self.launch: Row | None = None
        self._found_at: tuple[Place, Row | None] | None = None
        """Where a launch was asked for last, and what was found there."""
        self._jumped_to: str | None = None
        self._columns = 0
        self._first = FirstView()
        self.key_queue: KeyQueue[Walk] = KeyQueue(self._walk)

    def compose_content(self) -> ComposeResult:
        """The lanes, the colours, the launch under the cursor."""
        yield Gantt()
        yield Static("", id="legend", markup=False)
        yield Static("", id="launch", markup=False)

    # Data.

    def prefetch(self, shell: KerneldbApp) -> None:
        """Ask before there are widgets: the chart is going to be as wide as the terminal."""
        if self._stale:
            self._first.prefetch(shell.store, shell.choice.selection(), columns_in(shell.size.width))

    async def load(self) -> str | None:
        """The axis and everything on it; then what is in view."""
        self._columns = self._width
        axis, everything = await self._first.get(self.store, self.choice.selection(), self._columns)
        self._found_at = None
        if not axis.traces:
            return sentence_for(axis) if axis.left_out else await why_empty(self.store, self.choice)
        if axis != self.axis:
            self.axis, self.first_ns, self.last_ns = axis, 0, axis.end_ns
            self.cursor_ns, self.lane, self.track, self.mark_ns, self.launch = 0, None, None, None, None
        if not everything.lanes:
            return "No launch of the Selection has times."
        before = self.board if self.board.axis == axis else None
        self.board = Board(axis, everything, self._stretch(0, axis.end_ns), before)
        self.lane = self.lane if self.lane in everything.lanes else self.board.lanes[0]
        if self._everything:
            self._draw()
        else:
            await self._view()
        await self._jump()
        await self._more()
        self._draw()
        self._beside()
        return None

    def _beside(self) -> None:
        """What is in view is there: ask for what stands beside the launches, and draw."""
        self._draw()

    @property
    def _everything(self) -> bool:
        return self.first_ns == 0 and self.last_ns >= self.axis.end_ns

    @property
    def _width(self) -> int:
        """Columns of the chart; before it has a size, those that it is going to have."""
        chart = self.query_one(Gantt)
        return chart.columns if chart.size.width else columns_in(self.shell.size.width)

    def _stretch(self, first_ns: int, last_ns: int) -> Stretch:
        return self.axis.stretch(first_ns, last_ns, self._width)

    @property
    def _in_view(self) -> Stretch:
        return self._stretch(self.first_ns, self.last_ns)

    async def _view(self) -> None:
        """Ask for the bins in view, and draw them; of few launches also for what comes after the bins."""
        stretch, board = self._in_view, self.board
        if stretch == board.full:
            board.see(board.everything, stretch)
        elif not board.is_close(stretch) or not await self._close_up(stretch):
            board.see(await self.store.read(timeline.lanes, self.axis, self.choice.selection(), stretch), stretch)
        self._draw()

    async def _close_up(self, stretch: Stretch) -> bool:
        """Take all that is in view from one read; whether that could be done."""
        board, place, known = self.board, self._place(), self._known
        where = self.axis, self.choice.selection(), stretch, None if known else self.lane, self._span()
        found = await self.store.read(close, *where)
        if found is None:
            return False
        board.see(found.seen, stretch, (found.names, found.labels))
        if not known:
            self._learn(place, found.launch)
        return True

    async def _more(self) -> None:
        """Ask for what comes after the bins, in one go: phases, names of wide launches, the launch under the cursor."""
        board, place, known = self.board, self._place(), self._known
        if board.is_whole and known:
            return
        where = self.axis, self.choice.selection(), self._in_view, None if known else self.lane, self._span()
        named = board.is_named and not board.is_whole
        labelled = board.view.launches <= MOST_NAMED and not board.is_whole
        more = await self.store.read(details, *where, named=named, labelled=labelled)
        if not board.is_whole:
            board.take(more.names, more.labels)
        if not known:
            self._learn(place, more.launch)
        if self._everything:
            board.is_named = bool(board.phases or board.modules)

    async def _under_cursor(self) -> Row | None:
        """The launch under the cursor, asked for unless it is known."""
        if self.lane is not None and not self._known:
            place = self._place()
            where = self.axis, self.choice.selection(), self.lane, place[1]
            self._learn(place, await self.store.read(timeline.at, *where))
            self._draw()
        return self.launch if self._known else None

    def _place(self) -> Place:
        """What the launch under the cursor depends on."""
        return self.lane, self._span()

    def _learn(self, place: Place, launch: Row | None) -> None:
        """Take the launch at a `place` for the one under the cursor, unless that went elsewhere meanwhile."""
        if place == self._place():
            self.launch, self._found_at = launch, (place, launch)

    @property
    def _known(self) -> bool:
        """Whether `launch` is what is under the cursor, be it none."""
        place, launch = self._found_at or (None, None)
        return self._holds(self.launch) or (place == self._place() and launch is self.launch)

    def _span(self) -> tuple[int, int]:
        """The time that the cursor's column shows."""
        stretch = self._in_view
        first = stretch.first_ns + self._column(self.cursor_ns) * stretch.step_ns
        return first, first + stretch.step_ns

    def _holds(self, launch: Row | None) -> bool:
        """Whether `launch` lies under the cursor, at the lane's time."""
        if launch is None or timeline.lane_of(self.axis, launch) != self.lane:
            return False
        begins, ends = self._times(launch)
        return begins <= self.cursor_ns <= max(ends, begins)

    def _times(self, launch: Row) -> tuple[int, int]:
        shift = self.axis.traces[timeline.lane_of(self.axis, launch).number].shift_ns
        return launch["start_ns"] + shift, launch["end_ns"] + shift

    # Movement.

    def _moved(self) -> None:
        """The range in view is another one."""
        if self.axis.traces:  # else nothing is in view yet
            self._clamp()
            supersede(self, "view", self._look)

    async def _look(self) -> None:
        with self.shell.busy_while():
            await self._view()
            await self._more()
        self._beside()  # which draws both: a picture takes as long as half of the questions

    def _pointed(self) -> None:
        """The cursor is elsewhere in what is in view."""
        self._draw()
        supersede(self, "cursor", self._under_cursor)

    def _clamp(self) -> None:
        """Keep the range inside the axis, and no finer than a ns a column."""
        columns = self.query_one(Gantt).columns
        end = self.axis.end_ns
        span = min(max(self.last_ns - self.first_ns, columns), max(end, columns))
        self.first_ns = min(max(self.first_ns, 0), max(end - span, 0))
        self.last_ns = self.first_ns + span

    @queued
    def action_zoom(self, direction: int) -> None:
        """In (1) or out (-1), around the cursor."""
        factor = ZOOM if direction > 0 else 1 / ZOOM
        span = self.last_ns - self.first_ns
        share = (self.cursor_ns - self.first_ns) / max(span, 1)
        wider = max(round(span * factor), self.query_one(Gantt).columns)
        self.first_ns = self.cursor_ns - round(share * wider)
        self.last_ns = self.first_ns + wider
        self._moved()

    @queued
    def action_pan(self, direction: int) -> None:
        """A quarter of the view left (-1) or right (1); the cursor stays in its column."""
        self._shift(round((self.last_ns - self.first_ns) * PAN) * direction)

    def _shift(self, by: int) -> None:
        """The view by a time; the cursor stays in its column."""
        before = self.first_ns
        self.first_ns, self.last_ns = self.first_ns + by, self.last_ns + by
        self._clamp()
        self.cursor_ns += self.first_ns - before
        self._moved()

    @queued
    def action_column(self, by: int) -> None:
        """The cursor left or right; at the edge the view follows."""
        step = self._in_view.step_ns
        self.cursor_ns = min(max(self.cursor_ns + by * step, 0), max(self.axis.end_ns - 1, 0))
        if self.first_ns <= self.cursor_ns < self.last_ns:
            self._pointed()
        else:
            self._centre()

    def _centre(self) -> None:
        span = self.last_ns - self.first_ns
        self.first_ns = self.cursor_ns - span // 2
        self.last_ns = self.first_ns + span
        self._moved()

    @queued
    def action_lane(self, by: int) -> None:
        """The cursor to another lane or track."""
        stops = self.board.stops
        if self._stop in stops:
            self._stand(stops[min(max(stops.index(self._stop) + by, 0), len(stops) - 1)])
            self._pointed()

    @property
    def _stop(self) -> Stop | None:
        """The row of the cursor."""
        return self.track or self.lane

    def _stand(self, stop: Stop) -> None:
        """Put the cursor in a row."""
        if isinstance(stop, Lane):
            self.lane, self.track = stop, None
        else:
            self.track = stop

    @queued
    def action_edge(self, end: int) -> None:
        """The begin (0) or the end (1) of the axis."""
        span = self.last_ns - self.first_ns
        self.cursor_ns = max(self.axis.end_ns - 1, 0) if end else 0
        self.first_ns = max(self.axis.end_ns - span, 0) if end else 0
        self.last_ns = self.first_ns + span
        self._moved()

    @queued
    def action_everything(self) -> None:
        """The whole axis."""
        self.first_ns, self.last_ns = 0, self.axis.end_ns
        self._moved()

    @queued
    def action_fit(self) -> None:
        """What is measured; else the launch under the cursor; else everything."""
        if self.mark_ns is not None and self.mark_ns != self.cursor_ns:
            self.first_ns, self.last_ns = sorted((self.mark_ns, self.cursor_ns))
            self._moved()
        else:
            supersede(self, "cursor", self._fit_launch)

    async def _fit_launch(self) -> None:
        launch = await self._under_cursor()
        if launch is None:
            self.action_everything()
            return
        self._around(*self._times(launch))

    def action_step(self, direction: timeline.Direction, same: bool = False) -> None:
        """The launch before or after the one under the cursor; of the `same` kernel signature, or of any."""
        self.key_queue.add((direction, same))
        self.run_worker(self.key_queue.run, group="walk")

    async def _walk(self, walk: Walk, times: int) -> None:
        """So many launches on from the one under the cursor; of the same signature, or of any."""
        direction, same = walk
        held = await self._under_cursor()
        if self.lane is None:
            return
        axis, selection, lane = self.axis, self.choice.selection(), self.lane
        start, index = self.cursor_ns - axis.traces[lane.number].shift_ns, -1
        if held:
            start, index = held["start_ns"], held["launch_index"]
        signature = held["signature_id"] if held and same else None
        step = timeline.Step(direction, start, index, self.last_ns - self.first_ns, signature, times)
        found = await self.store.read(timeline.neighbour, axis, selection, lane, step)
        if (axis, selection) != (self.axis, self.choice.selection()):
            return
        if found is None or found["steps"] < times:
            of = " of this kernel" if signature else ""
            self.shell.notify(f"No further launch{of} in this lane.", markup=False)
        if found is None:
            return
        self._go_to(found)

    def _go_to(self, launch: Row) -> None:
        """The cursor to a launch."""
        self.launch, self.lane, self.track = launch, timeline.lane_of(self.axis, launch), None
        self.cursor_ns, _ = self._times(launch)
        self._arrive()

    def _arrive(self) -> None:
        """The cursor went to a time, perhaps out of view."""
        if self.first_ns <= self.cursor_ns < self.last_ns:
            self._draw()
        else:
            self._centre()

    def _around(self, begins_ns: int, ends_ns: int) -> None:
        """Show a time, with some around it; the cursor at its begin."""
        span = max((ends_ns - begins_ns) * AROUND, self.query_one(Gantt).columns)
        self.first_ns = (begins_ns + ends_ns) // 2 - span // 2
        self.last_ns = self.first_ns + span
        self.cursor_ns = begins_ns
        self._moved()

    async def _jump(self) -> None:
        """To the time that was asked for, or to the kernel that was looked at on another screen; once."""
        wanted, time_ns = self.shell.signature, self.shell.time_ns
        if time_ns is not None:
            self.launch, self.cursor_ns = None, min(time_ns, max(self.axis.end_ns - 1, 0))
            span = min(self.last_ns - self.first_ns, self.axis.end_ns // AROUND)
            self.first_ns, self.last_ns = self.cursor_ns - span // 2, self.cursor_ns + span // 2
            self._clamp()
            await self._view()
            self.shell.time_ns, self._jumped_to = None, wanted
            return
        if wanted is None or wanted == self._jumped_to:
            return
        found = await self.store.read(timeline.first_of, self.choice.selection(), wanted)
        if found is not None and any(one.trace_id == found["trace_id"] for one in self.axis.traces):
            self.launch, self.lane = found, timeline.lane_of(self.axis, found)
            begins, ends = self._times(found)
            span = max((ends - begins) * AROUND, self.query_one(Gantt).columns)
            self.first_ns, self.last_ns, self.cursor_ns = begins - span // 2, begins + span // 2, begins
            self._clamp()
            await self._view()
        self._jumped_to = wanted

    def shown(self) -> None:
        """The pane came to the front: perhaps another kernel was looked at meanwhile."""
        asked = self.shell.pointed is not None or self.shell.time_ns is not None
        sought = asked or self.shell.signature not in {None, self._jumped_to}
        self._stale = self._stale or (sought and bool(self.axis.traces))
        super().shown()

    # Drawing.

    @on(Gantt.Pointed)
    def _clicked(self, event: Gantt.Pointed) -> None:
        stop = self.board.stop_at(event.row)
        if stop is not None:
            self._point(stop, self.first_ns + event.column * self._in_view.step_ns)

    @queued
    def _point(self, stop: Stop, time_ns: int) -> None:
        self._stand(stop)
        self.cursor_ns = time_ns
        self._pointed()

    @on(Gantt.Turned)
    def _turned(self, event: Gantt.Turned) -> None:
        self.action_lane(event.by)

    @on(Gantt.Zoomed)
    def _wheeled(self, event: Gantt.Zoomed) -> None:
        self.cursor_ns = self.first_ns + event.column * self._in_view.step_ns
        self.action_zoom(event.by)

    @on(Gantt.Dragged)
    def _dragged(self, event: Gantt.Dragged) -> None:
        self._shift(-event.by * self._in_view.step_ns)

    @on(Gantt.Resized)
    def _resized(self) -> None:
        if self._columns not in {0, self.query_one(Gantt).columns}:
            self.reload()

    def _draw(self) -> None:
        if self.board.stretch is None or self.lane is None:
            return
        with self.board.still():
            self._draw_rows()
        colours = None if self.app.no_color else partial(theme.ink, self.app)
        words = legend(self.board, self._room, colours, self.track)
        self.query_one("#legend", Static).update(words, layout=False)

    def _draw_rows(self) -> None:
        """The chart, and what is under the cursor."""
        stop = self._stop
        if stop is None:
            return
        pointer = Pointer(self.board.row_of(stop), self._column(self.cursor_ns), linked=self._link())
        if (span := self._held_times()) is not None:
            begins, ends = map(self._column, span)
            pointer = dataclasses.replace(pointer, launch=(begins, max(ends, begins + 1)))
        if self.mark_ns is not None:
            first, last = sorted((self._column(self.mark_ns), pointer.column))
            pointer = dataclasses.replace(pointer, measured=(first, last))
        self.query_one(Gantt).show(self.board.picture(), pointer)
        self.query_one("#launch", Static).update(self._about(), layout=False)

    def _held_times(self) -> tuple[int, int] | None:
        """When what is under the cursor began and ended."""
        return self._times(self.launch) if self._holds(self.launch) and self.launch is not None else None

    def _link(self) -> tuple[int, int] | None:
        """Row and column of what an arrow from the cursor goes to."""
        return None

    @property
    def _measured_ns(self) -> int | None:
        return None if self.mark_ns is None else abs(self.cursor_ns - self.mark_ns)

    def _about(self) -> Content:
        """What is under the cursor, in words."""
        where = self.board.title(self.lane) if self.lane is not None else ""
        if self.launch is None or not self._known:
            return about_gap(where, self._measured_ns, known=self._known)
        return about_launch(self.launch, where, self._times(self.launch)[0], self._measured_ns, self._room)

    @property
    def _room(self) -> int:
        """Cells of a line of text."""
        return self.size.width - 2

    def _column(self, time_ns: int) -> int:
        stretch = self._in_view
        return (time_ns - stretch.first_ns) // stretch.step_ns
