"""The screen Timeline: when kernels ran, and what the host did meanwhile, per device, stream and thread."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.binding import Binding, BindingType

from kerneldb.api import critical, timeline, tracks
from kerneldb.api.tracks import Line, Track
from kerneldb.selection import Selection
from kerneldb.tui.early_keys import queued
from kerneldb.tui.model import both, equals
from kerneldb.tui.numbers import safe
from kerneldb.tui.pane import Copy
from kerneldb.tui.screens.timeline_lanes import LanesPane
from kerneldb.tui.screens.timeline_tracks import inmost, table
from kerneldb.tui.screens.timeline_words import Told, about_event, led_to
from kerneldb.tui.tasks import supersede
from kerneldb.tui.widgets.gantt import Gantt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from textual.content import Content

    from kerneldb.api.queries import Connection
    from kerneldb.api.timeline import Axis, Stretch
    from kerneldb.api.tracks import Event, Gap, Lines
    from kerneldb.tui.model import Pointed
    from kerneldb.tui.widgets.table import Row

NAMED_IN_RANGE: Final = 25
"""Names of each kind that the table of a range holds."""
BESIDE: Final = 2
"""A call and its launch are shown with such a part of their time on either side."""
MOST_ON_PATH: Final = 200_000
"""With more launches than this, a critical path takes minutes."""


def beside(con: Connection, shown: Axis, stretch: Stretch, *, sums: bool) -> Lines:
    """What stands beside the launches of a stretch, idle times but for."""
    return tracks.host(con, shown, stretch, stretch.step_ns, sums=sums) | tracks.counters(con, shown, stretch)


def learnt(con: Connection, shown: Axis, track: Track, event: Event) -> Told:
    """What an event of a track led to, and what was around it."""
    if track.kind == "idle":
        return Told(launch=tracks.ended_by(con, shown, track, event))
    if track.kind not in tracks.LINKED or event.id is None:
        return Told()
    trace = shown.traces[track.number]
    begins = event.begins_ns - trace.shift_ns
    place = {"process": track.process, "thread": track.thread, "start_ns": begins}
    around = timeline.around(con, trace.trace_id, place)
    found = tracks.launched(con, shown, track, event)
    return Told(around=around) if found is None else Told(led_to(*found), found[0], around)


def launch_at(con: Connection, selection: Selection, pointed: Pointed) -> Row | None:
    """The launch that a cursor is on; of a signature the longest, with the number `n` of those it is the longest of."""
    if pointed.launch is not None:
        return timeline.launch(con, selection, *pointed.launch)
    return timeline.longest_of(con, selection, pointed.signature_id or "", pointed.trace)


def path_of(con: Connection, traces: Sequence[str]) -> list[Row]:
    """The steps of the critical path of traces."""
    Selection(None, tuple(traces)).bind(con)
    return list(critical.in_traces(con))


class TimelinePane(LanesPane):
    """Lanes of launches, and what stands beside them: idle times, the host, counters, the critical path."""

    TITLE = "Timeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,plus,equals_sign", "zoom(1)", "Zoom in", key_display="w"),
        Binding("s,minus", "zoom(-1)", "out", key_display="s"),
        Binding("a,shift+left", "pan(-1)", "Pan", key_display="a"),
        Binding("d,shift+right", "pan(1)", "Pan right", show=False),
        Binding("left,h", "column(-1)", "Cursor left", show=False),
        Binding("right,l", "column(1)", "Cursor right", show=False),
        Binding("up,k", "lane(-1)", "Lane above", show=False),
        Binding("down,j", "lane(1)", "Lane below", show=False),
        Binding("pageup", "lane(-8)", "Lanes up", show=False),
        Binding("pagedown", "lane(8)", "Lanes down", show=False),
        Binding("home", "edge(0)", "Begin of the axis", show=False),
        Binding("end", "edge(1)", "End of the axis", show=False),
        Binding("comma", "step('previous')", "Previous launch", show=False),
        Binding("g", "gap(0)", "Gap"),
        Binding("c", "call", "Call"),
        Binding("full_stop", "step('next')", "Launch", key_display="."),
        Binding("N", "same('previous')", "Previous launch of this kernel, or match", show=False),
        Binding("n", "same('next')", "Same"),
        Binding("f", "fit", "Fit"),
        Binding("0", "everything", "Everything", show=False),
        Binding("G", "gap(1)", "Next gap", show=False),
        Binding("m", "measure", "Measure"),
        Binding("b", "range", "Budget"),
        Binding("ctrl+f", "search", "Search", show=False, key_display="^f"),
        Binding("x", "levels", "Nested events", show=False),
        Binding("P", "critical", "Critical path", show=False),
        Binding("v", "filter", "Range to WHERE", show=False),
        Binding("enter", "open", "Kernel", show=False),
        Binding("p", "pin", "Pin lane", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._gaps: tuple[object, list[Gap]] = (None, [])
        """The idle times, longest first, and what they were asked for."""
        self._gap = -1
        self._search = ""
        self._told: tuple[Track, int, Event | None, Told] | None = None
        """Track and time that were asked about, the event there, and what was learnt about it."""

    async def load(self) -> str | None:
        """The lanes, and the call that another screen asked for."""
        sentence = await super().load()
        self.shell.pointed = None  # once, and also where there is no timeline to find it on
        return sentence

    async def _jump(self) -> None:
        pointed = self.shell.pointed
        if pointed is None:
            await super()._jump()
            return
        launch = await self.store.read(launch_at, self.choice.selection(), pointed)
        if launch is None or all(one.trace_id != launch["trace_id"] for one in self.axis.traces):
            self.shell.notify("No launch of it is on this timeline: none of the Selection has times.", markup=False)
        else:
            await self._show_call(launch)

    async def _show_call(self, launch: Row) -> None:
        """The cursor to the call of a launch, with both in view."""
        self._jumped_to = self.shell.signature
        if (n := launch.get("n", 1)) > 1:
            name = safe(launch["short_name"] or launch["kind"])
            self.shell.notify(f"{name}: the longest of {n:,} launches", markup=False)
        self.launch, self.lane, self.track = launch, timeline.lane_of(self.axis, launch), None
        begins, ends = self._times(launch)
        self.cursor_ns = begins
        if self._stand_at_call(launch):
            begins = self.cursor_ns
        margin = max((ends - begins) // BESIDE, self.query_one(Gantt).columns)
        self.first_ns, self.last_ns = begins - margin, max(ends, begins) + margin
        self._clamp()
        await self._view()
        supersede(self, "told", self._tell)

    # What stands beside the launches.

    def _beside(self) -> None:
        supersede(self, "beside", self._ask_beside)

    async def _ask_beside(self) -> None:
        board, stretch = self.board, self._in_view
        sums = board.view.launches <= tracks.MOST_SUMMED
        found = await self.store.read(beside, self.axis, stretch, sums=sums)
        if self._few and self._gaps[0] != self._gap_key:
            await self._find_gaps(self._stretch(0, self.axis.end_ns), causes=True)
        if board is self.board and stretch == self._in_view:
            board.tracks.add(found)
            board.tracks.unfold(self.query_one(Gantt).spare(board.rows_folded))
        self._draw()

    @property
    def _few(self) -> bool:
        """Whether the causes of all idle times are looked up at once."""
        return self.board.everything.launches <= tracks.MOST_CAUSES

    @property
    def _gap_key(self) -> object:
        view = None if self._few else (self.first_ns, self.last_ns)
        return self.axis, self.store.version(), view

    async def _find_gaps(self, stretch: Stretch, *, causes: bool) -> None:
        key = self._gap_key
        found = await self.store.read(tracks.gaps, self.axis, stretch, causes=causes)
        self._gaps, self._gap = (key, found), -1
        self._show_gaps()

    def _show_gaps(self) -> None:
        lines: dict[Track, list[Event]] = {}
        for track, gap in self._gaps[1]:
            lines.setdefault(track, []).append(gap)
        self.board.tracks.add({track: Line(events) for track, events in lines.items()})

    # Keys.

    def _once_there(self, group: str, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Ask about the traces that are shown; about none there is nothing to ask."""
        if self.axis.traces:
            supersede(self, group, work, *args)

    @queued
    def action_gap(self, by: int) -> None:
        """The longest idle time, or (1) the one that is next in length."""
        self._once_there("gap", self._go_to_gap, by)

    async def _go_to_gap(self, by: int) -> None:
        with self.shell.busy_while():
            walks_on = by and self._gap >= 0
            if not walks_on and self._gaps[0] != self._gap_key:
                stretch = self._stretch(0, self.axis.end_ns) if self._few else self._in_view
                await self._find_gaps(stretch, causes=self._few)
            found = self._gaps[1]
            if not found:
                self.shell.notify("No idle time: launches follow each other without a gap.", markup=False)
                return
            self._gap = min(self._gap + 1, len(found) - 1) if walks_on else 0
            track, gap = found[self._gap]
            if not gap.facts.get("cause"):
                gap = await self._caused(track, gap)
            self.track = track
            self._around(gap.begins_ns, gap.ends_ns)
            await self._tell()

    async def _caused(self, track: Track, gap: Event) -> Event:
        """The same idle time with its cause."""
        span = self._stretch(gap.begins_ns, gap.ends_ns)
        near = await self.store.read(tracks.gaps, self.axis, span, causes=True)
        told = next((one for place, one in near if place == track and one.begins_ns == gap.begins_ns), gap)
        self._gaps[1][self._gap] = track, told
        self._show_gaps()
        return told

    @queued
    def action_call(self) -> None:
        """From a launch to the call that launched it, from an idle time to the one that ended it; from a call back."""
        supersede(self, "cursor", self._follow)

    async def _follow(self) -> None:
        launch = await self._under_cursor() if self.track is None else await self._tell()
        back = self.track is not None and self.track.kind in tracks.LINKED
        if launch is None:
            self.shell.notify("Nothing is linked with what is under the cursor.", markup=False)
        elif back:
            self._go_to(launch)
        else:
            self._go_to_call(launch)

    def _go_to_call(self, launch: Row) -> None:
        if self._stand_at_call(launch):
            self._arrive()

    def _stand_at_call(self, launch: Row) -> bool:
        """Put the cursor at the call of a launch; where it is not known, say so."""
        start, caller = launch["launch_start_ns"], launch["caller"]
        if start is None:
            self.shell.notify("The trace does not say which call launched this.", markup=False)
            return False
        lane = timeline.lane_of(self.axis, launch)
        self.launch, self.lane = launch, lane
        if caller is not None:
            self.track = Track(lane.number, "API calls", caller["process"], caller["thread"])
        self.cursor_ns = start + self.axis.traces[lane.number].shift_ns
        if self.cursor_ns < 0:
            self.shell.notify("The call began before the first launch, where the axis begins.", markup=False)
            self.cursor_ns = 0
        return True

    @queued
    def action_range(self) -> None:
        """What the measured range, else what is in view, holds: a table and its idle time."""
        self._once_there("range", self._sum_up)

    async def _sum_up(self) -> None:
        from kerneldb.tui.dialogs import Page

        first, last = self._range
        span = dataclasses.replace(timeline.Stretch.of(first, last, 1), step_ns=max(last - first, 1))
        with self.shell.busy_while():
            found = await self.store.read(tracks.summed, self.axis, span, NAMED_IN_RANGE)
        idle = [gap for _, gap in self._gaps[1]]
        self.shell.push_screen(Page("Range", table(found, idle, first, last)))

    @property
    def _range(self) -> tuple[int, int]:
        """What is measured, else what is in view."""
        if self.mark_ns is None:
            return self.first_ns, min(self.last_ns, self.axis.end_ns)
        first, last = sorted((self.mark_ns, self.cursor_ns))
        return first, last

    def action_search(self) -> None:
        """Ask for a name, and go to what has it."""
        from kerneldb.tui.dialogs import AskText

        def found(text: str | None) -> None:
            if text:
                self._search = text
                self.action_same("next")

        self.shell.push_screen(
            AskText("Search", "Part of a name: kernels, operators, calls, annotations; n and N go on"), found
        )

    def action_same(self, direction: timeline.Direction) -> None:
        """The next or previous match of the search; without one, launch of the kernel under the cursor."""
        if self._search:
            self._once_there("cursor", self._find, direction)
        else:
            self.action_step(direction, same=True)

    async def _find(self, direction: timeline.Direction) -> None:
        forward = direction == "next"
        with self.shell.busy_while():
            found = await self.store.read(tracks.search, self.axis, self._search, self.cursor_ns, forward=forward)
            if found is None:
                self.shell.notify(f"No further name with {self._search}; esc ends the search", markup=False)
            elif found["kind"] == "launch":
                launch = await self.store.read(timeline.launch, self.choice.selection(), found["trace_id"], found["id"])
                if launch is not None:
                    self._go_to(launch)
            else:
                self.track = Track(found["number"], found["kind"], found["process"], found["thread"])
                self.cursor_ns = found["begins"]
                self._arrive()

    @queued
    def action_levels(self) -> None:
        """Nested events of the host in rows of their own, or in one."""
        self.board.tracks.deep, self.board.tracks.chosen = not self.board.tracks.deep, True
        if self.track is not None:
            self.track = dataclasses.replace(self.track, depth=None)
        self.board.tracks.paint(self._in_view)
        self._draw()

    @queued
    def action_critical(self) -> None:
        """Find the critical path, and show it."""
        self._once_there("critical", self._find_path)

    async def _find_path(self) -> None:
        if self.board.everything.launches > MOST_ON_PATH:
            self.shell.notify(f"Over {MOST_ON_PATH:,} launches: restrict the traces first.", markup=False)
            return
        with self.shell.busy_while():
            steps = await self.store.read(path_of, [one.trace for one in self.axis.traces])
        self.board.tracks.add(tracks.path(self.axis, steps))
        self._draw()

    @queued
    def action_measure(self) -> None:
        """Put the mark under the cursor, or take it away."""
        self.mark_ns = self.cursor_ns if self.mark_ns is None else None
        self._draw()

    @queued
    def action_filter(self) -> None:
        """Restrict the Selection to launches that began in the measured range, else in the range in view."""
        if self._stop is None:
            return
        first, last = self._range if self.mark_ns is not None else (self.first_ns, self.last_ns)
        trace = self.axis.traces[self._stop.number]
        condition = f"start_ns BETWEEN {first - trace.shift_ns} AND {last - trace.shift_ns}"
        if len(self.axis.traces) > 1:
            condition = both(equals("trace", trace.trace), condition)
        self.mark_ns = None
        self.shell.narrow(condition)

    @queued
    def action_pin(self) -> None:
        """Move the lane under the cursor to the top, or back to its place."""
        if self.lane is not None and self.track is None:
            self.board.pin(self.lane)
            self._draw()

    @queued
    def action_open(self) -> None:
        """Everything about the kernel under the cursor."""
        supersede(self, "cursor", self._open)

    async def _open(self) -> None:
        launch = await self._under_cursor() if self.track is None else await self._tell()
        if launch is not None:
            self._jumped_to = launch["signature_id"]
            self.shell.show_signature(launch["signature_id"])

    def on_cancel(self) -> bool:
        """End the search; else take the mark away; else show everything again."""
        if self._search:
            self._search = ""
            return True
        if self.mark_ns is not None:
            self.action_measure()
            return True
        if self.state in {"ready", "error"} and not self._everything:
            self.action_everything()
            return True
        return False

    def choice_changed(self) -> None:
        """Launches that are left out are no longer under the cursor."""
        self.launch = self._found_at = self._told = None
        self.key_queue.clear()

    def command(self) -> str | None:
        """Time by stream, as the command line prints it."""
        return self.shell.command("top", "--by", "stream")

    def copies(self) -> list[Copy]:
        """The kernel under the cursor."""
        if self.track is not None:
            return [Copy("n", "name", self._event.text if self._event is not None else "")]
        one = self.launch if self._known else None
        if one is None:
            return []
        where = both(equals("trace", one["trace"]), equals("launch_index", one["launch_index"]))
        return [
            Copy("n", "kernel name", one["name"] or one["kind"]),
            Copy("r", "WHERE of this launch", where, lines=True),
        ]

    # Drawing.

    @property
    def _event(self) -> Event | None:
        """What the track under the cursor holds there."""
        if self.track is None or self._is_told:
            return self._told[2] if self._told is not None and self.track is not None else None
        return self.board.tracks.at(self.track, self._span(), self.cursor_ns)

    @property
    def _is_told(self) -> bool:
        return self._told is not None and self._told[:2] == (self.track, self.cursor_ns)

    async def _tell(self) -> Row | None:
        """Learn what the event under the cursor led to, and return the launch that it is linked with."""
        track, time_ns = self.track, self.cursor_ns
        if track is None:
            return None
        if self._told is None or not self._is_told:
            event = self._event
            if event is None and track.kind in tracks.HOST:
                event = inmost(await self.store.read(tracks.within, self.axis, track, self._span()), time_ns)
            told = Told() if event is None else await self.store.read(learnt, self.axis, track, event)
            self._told = track, time_ns, event, told
            self._draw()
        return self._told[3].launch

    def _pointed(self) -> None:
        super()._pointed()
        supersede(self, "told", self._tell)

    def _arrive(self) -> None:
        super()._arrive()
        supersede(self, "told", self._tell)

    def _held_times(self) -> tuple[int, int] | None:
        if self.track is None:
            return super()._held_times()
        event = self._event
        return None if event is None else (event.begins_ns, event.ends_ns)

    def _link(self) -> tuple[int, int] | None:
        """From a launch to its call, from a call to its first launch, from an idle time to the call that ended it."""
        if self.track is None:
            launch = self.launch if self._known else None
        else:
            launch = self._told[3].launch if self._told is not None and self._is_told else None
        if launch is None:
            return None
        lane = timeline.lane_of(self.axis, launch)
        if self.track is not None and self.track.kind in tracks.LINKED:
            return self.board.row_of(lane), self._column(self._times(launch)[0])
        if launch["launch_start_ns"] is None or launch["caller"] is None:
            return None
        call = Track(lane.number, "API calls", launch["caller"]["process"], launch["caller"]["thread"])
        if not (row := self.board.row_of(call)):
            return None
        return row, self._column(launch["launch_start_ns"] + self.axis.traces[lane.number].shift_ns)

    def _about(self) -> Content:
        if self.track is None:
            return super()._about()
        told = self._told[3] if self._told is not None and self._is_told else Told()
        return about_event(self.axis, self.track, self._event, told, self._measured_ns, self._room)
