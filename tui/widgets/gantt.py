"""A timeline in characters: a lane a row, each cell as high as its share of the time was busy, coloured by category."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, Final, Literal

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kerneldb.tui import theme
from kerneldb.tui.numbers import BLOCKS, cut_frame, duration, fit, safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events

    from kerneldb.tui.theme import Hue, Shade

Kind = Literal["header", "phases", "lane", "spans", "counter"]
"""Phases are spans of launches; other spans, and counters, are of what is beside them."""

LEVELS: Final = 8
MOST_LINES: Final = 5
"""Lines of a lane, and in a tall terminal a quarter of it."""
GUTTER: Final = 16
WIDE_GUTTER: Final = 26
WIDE: Final = 120
HEAD: Final = 2
"""Lines above the lanes: the map of everything, and the times."""
LEAST_CELLS: Final = 4
"""Narrower launches get no name."""
LEAST_LINES: Final = 2
"""Lines of a lane where not all rows fit, as long as lanes take no more than a third of them."""
TICK: Final = 14
HALF: Final = 0.5
"""Of a line: where there are no colours, a bar that is lower has a small letter."""
PLAIN: Final = Style()
DIM: Final = Style(dim=True)
MARKED: Final = Style(bold=True, underline=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One column of a lane: the share of its time that was busy (over 1 where launches overlap), and by what.

    Neighbours of the same `event` are one span.
    """

    share: float
    category: str | None
    event: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A name written into a lane, from the column `first` up to, and without, `last`."""

    first: int
    last: int
    text: str
    category: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A header, the phases of a trace, a lane, spans or a counter. `note` is written at the right of the gutter.

    `hues` are those of spans by what they are called; one that is too narrow for that shows its letter in `letters`.
    The names of spans are Python `frames`, or not.
    """

    kind: Kind
    label: str
    note: str = ""
    cells: Mapping[int, Cell] = dataclasses.field(default_factory=dict)
    names: Sequence[Name] = ()
    hues: Mapping[str, Hue] = dataclasses.field(default_factory=dict)
    letters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    frames: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """What a Gantt draws. Times in ns of the axis; `overview` are shares of the time of the axis, left to right."""

    rows: Sequence[Row] = ()
    first_ns: int = 0
    last_ns: int = 0
    axis_ns: int = 0
    overview: Sequence[float] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """The cursor: the row of `Picture.rows`, the column, the columns of the launch there, and those measured.

    `linked` is the row and column that an arrow goes to: the call of the launch, or the launch of the call.
    """

    row: int = 0
    column: int = 0
    launch: tuple[int, int] | None = None
    measured: tuple[int, int] | None = None
    linked: tuple[int, int] | None = None


class Gantt(Widget, can_focus=True):
    """Draws a `Picture` with a `Pointer`. Keys belong to the pane around it; clicks become messages."""

    DEFAULT_CSS = """
    Gantt { height: 1fr; width: 1fr; background: $background; color: $foreground; }
    """

    @dataclasses.dataclass
    class Pointed(Message):
        """A click on a column of a row of the picture."""

        row: int
        column: int

    @dataclasses.dataclass
    class Turned(Message):
        """The wheel: lanes down (+1) or up (-1)."""

        by: int

    @dataclasses.dataclass
    class Zoomed(Message):
        """The wheel over a column: in (+1) or out (-1)."""

        by: int
        column: int

    @dataclasses.dataclass
    class Dragged(Message):
        """The chart was pulled by columns to the right (+) or the left (-)."""

        by: int

    class Resized(Message):
        """There is another number of columns now."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = Picture()
        self.pointer = Pointer()
        self._top = 0
        self._height = 1
        """Lines of a lane."""
        self._pressed_at: int | None = None
        self._dragged = False

    @property
    def label_width(self) -> int:
        """Columns left of the lanes."""
        return gutter(self.size.width)

    @property
    def columns(self) -> int:
        """Columns of the lanes."""
        return columns_in(self.size.width)

    def show(self, picture: Picture | None = None, pointer: Pointer | None = None) -> None:
        """Draw something else, or the cursor elsewhere; what is None stays."""
        self.picture = picture or self.picture
        self.pointer = pointer or self.pointer
        self._follow()
        self.refresh()

    def spare(self, rows: int) -> int:
        """How many lines are left where so many rows are shown, with two for each lane."""
        lanes = sum(1 for row in self.picture.rows if row.kind == "lane")
        return self.size.height - HEAD - rows - (LEAST_LINES - 1) * lanes

    def rows_shown(self) -> tuple[int, int]:
        """The first row on the screen, and the one after the last."""
        rows, room = self.picture.rows, self.size.height - HEAD
        place = self._top
        while place < len(rows) and room >= self._lines(rows[place]):
            room -= self._lines(rows[place])
            place += 1
        return self._top, place

    def render_line(self, y: int) -> Strip:
        """The map, the times, or a line of a row."""
        segments = self._map() if y == 0 else self._times() if y == 1 else self._body(y - HEAD)
        return Strip(segments).crop_extend(0, self.size.width, None).apply_style(self.rich_style)

    # Where things are.

    def _lines(self, row: Row) -> int:
        return self._height if row.kind == "lane" else 1

    def _place(self, line: int) -> tuple[int, int]:
        """Row and line in it of a line below the head; (-1, 0) below all rows."""
        rows = self.picture.rows
        for place in range(self._top, len(rows)):
            lines = self._lines(rows[place])
            if line < lines:
                return place, line
            line -= lines
        return -1, 0

    def _follow(self) -> None:
        """Give lanes as many lines as there is room for; scroll to the row of the cursor, and a header right above."""
        rows, room = self.picture.rows, self.size.height - HEAD
        lanes = sum(1 for row in rows if row.kind == "lane") or 1
        least = LEAST_LINES if 3 * LEAST_LINES * lanes <= room else 1
        self._height = min(max((room - len(rows) + lanes) // lanes, least), max(MOST_LINES, room // 4))
        wanted = min(self.pointer.row, max(len(rows) - 1, 0))
        upper = wanted
        while upper > 0 and rows[upper - 1].kind in {"header", "phases"}:
            upper -= 1
        self._top = min(self._top, upper)
        while self._top < wanted and self.rows_shown()[1] <= wanted:
            self._top += 1
        while self._top > 0 and sum(map(self._lines, rows[self._top - 1 :])) <= room:
            self._top -= 1

    def on_resize(self) -> None:
        """Other columns need other bins."""
        self._follow()
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there."""
        row, _ = self._place(event.y - HEAD)
        if self._dragged or event.y < HEAD or row < 0 or event.x < self.label_width:
            return
        self.post_message(self.Pointed(row, event.x - self.label_width))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the chart."""
        self._dragged = False
        if event.x >= self.label_width:
            self._pressed_at = event.x
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Pull the chart, where it is held."""
        if self._pressed_at is not None and event.x != self._pressed_at:
            self._dragged = True
            self.post_message(self.Dragged(event.x - self._pressed_at))
            self._pressed_at = event.x

    def on_mouse_up(self) -> None:
        """Let go."""
        self._pressed_at = None
        self.release_mouse()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out; over the labels, lanes further down."""
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in; over the labels, lanes further up."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        event.stop()
        column = event.x - self.label_width
        self.post_message(self.Turned(by) if column < 0 else self.Zoomed(-by, column))

    # Drawing.

    def _style(self, hue: Hue, *, filled: bool = False) -> Style:
        return _style_of(theme.shade(self.app), hue, filled=filled)

    def _map(self) -> list[Segment]:
        """Everything in one line, with what is on the screen marked."""
        picture, width = self.picture, self.columns
        axis_ns = max(picture.axis_ns, 1)
        first, last = (
            min(max(round(time / axis_ns * width), 0), width) for time in (picture.first_ns, picture.last_ns)
        )
        last = max(last, first + 1)
        segments = [Segment(fit(f"all {duration(picture.axis_ns)}", self.label_width), Style(dim=True))]
        styles = self._style("grey"), self._style("blue") + Style(underline=True)
        for column in range(width):
            place = column * len(picture.overview) // width
            share = picture.overview[place] if picture.overview else 0.0
            segments.append(Segment(_block(share, 0, 1), styles[first <= column < last]))
        return list(Segment.simplify(segments))

    def _times(self) -> list[Segment]:
        """The times in view, with the column of the cursor and the measured ones."""
        picture, width = self.picture, self.columns
        span = max(min(picture.last_ns, picture.axis_ns) - picture.first_ns, 1)
        first, last = self.pointer.measured or (0, -1)
        drawn_over = [self.pointer.column, *range(first, last + 1)]
        line = [" "] * width
        for column, label in ticks(picture.first_ns, picture.last_ns, width):
            text = "╵" + label
            if any(column < over < column + len(text) for over in drawn_over):
                text = "╵"  # half a time would be another time
            if column + len(text) <= width:
                line[column : column + len(text)] = text
        strong = self._style("yellow") + Style(bold=True)
        segments = [Segment(fit(f"view {duration(span)}", self.label_width), DIM)]
        for column, character in enumerate(line):
            if column == self.pointer.column:
                segments.append(Segment("▼", strong))
            elif first <= column <= last:
                segments.append(Segment("━", strong))
            else:
                segments.append(Segment(character, DIM))
        return segments

    def _body(self, line: int) -> list[Segment]:
        place, inner = self._place(line)
        if place < 0:
            return []
        row, here = self.picture.rows[place], place == self.pointer.row
        if row.kind == "header":
            return [Segment(fit(row.label, self.size.width), Style(bold=True))]
        if row.kind in {"phases", "spans"}:
            drawn = self._spans(row, here=here)
        else:
            drawn = self._lane(row, inner, self._lines(row), here=here)
        drawn = self._crossed(drawn, place, last=inner == self._lines(row) - 1)
        if inner:
            return [Segment(" " * self.label_width), *drawn]
        label = fit(("▸" if here else " ") + row.label, self.label_width - len(row.note) - 1 - bool(row.note))
        label += " " * bool(row.note)
        style = Style(bold=here, dim=row.kind != "lane" and not here)
        return [Segment(label, style), Segment(row.note + " ", Style(dim=not here)), *drawn]

    def _spans(self, row: Row, *, here: bool) -> list[Segment]:
        """Spans with their names, and bars where there are only shorter ones."""
        segments: list[Segment] = []

        def key(column: int) -> tuple[str | None, int, bool] | None:
            cell = row.cells.get(column)
            return None if cell is None else (cell.category, cell.event, cell.share < 1)

        for found, group in itertools.groupby(range(self.columns), key):
            columns = list(group)
            if found is None or found[0] is None:
                text = "".join(_short(row.cells.get(column)) for column in columns)
                style = DIM
            elif found[2]:
                text = "".join(_short(row.cells.get(column)) for column in columns)
                style = self._style(row.hues.get(found[0], "grey"))
            else:
                letter = row.letters.get(found[0], "")
                text = _named(safe(found[0]), len(columns), letter, frame=row.frames)
                style = self._style(row.hues.get(found[0], "grey"))
            if not here:
                segments.append(Segment(text[: len(columns)], style))
                continue
            segments += [
                Segment(character, style + self._over(column)) for column, character in zip(columns, text, strict=False)
            ]
        return list(Segment.simplify(segments))

    def _crossed(self, drawn: list[Segment], place: int, *, last: bool) -> list[Segment]:
        """A line of a row with the arrow to what the event under the cursor is linked with, where it crosses it.

        It ends in the `last` line of its row.
        """
        if self.pointer.linked is None:
            return drawn
        row, column = self.pointer.linked
        if not min(row, self.pointer.row) <= place <= max(row, self.pointer.row) or not 0 <= column < self.columns:
            return drawn
        strip = Strip(drawn)
        ends = place == row and last
        crossed = strip.crop(column, column + 1).text
        if not ends and crossed not in {" ", "·", "─"}:
            return drawn
        style = self._style("yellow") + Style(bold=True)
        is_letter = ends and crossed.isalnum()  # of a name, which stays readable
        arrow = Segment(crossed, style + Style(reverse=True)) if is_letter else Segment("◆" if ends else "│", style)
        return [*strip.crop(0, column), arrow, *strip.crop(column + 1)]

    def _lane(self, row: Row, inner: int, height: int, *, here: bool) -> list[Segment]:
        """One line of a lane of so many; `here` is whether the cursor is in it."""
        from_below = height - 1 - inner
        text = self._written(row) if inner == (height - 1) // 2 else {}
        shade, segments = theme.shade(self.app), []
        for column in range(self.columns):
            cell = row.cells.get(column)
            if column in text:
                character, category = text[column]
                style = _style_of(shade, theme.category_hue(category), filled=True)
            elif cell is not None:
                character = _block(cell.share, from_below, height, least=1)
                if row.kind == "lane" and not from_below and self.app.no_color:
                    character = theme.category_letter(cell.category, small=cell.share * height < HALF)
                hue = row.hues.get(cell.category or "") or theme.category_hue(cell.category)
                style = _style_of(shade, hue)
            else:
                character = "·" if not from_below and column % TICK == 0 else " "
                character, style = "│" if column == self.pointer.column else character, DIM
            segments.append(Segment(character, style + self._over(column) if here else style))
        return list(Segment.simplify(segments))

    def _over(self, column: int) -> Style:
        """How the cursor, and the launch under it, change a cell of its row."""
        if column == self.pointer.column:
            return Style(bgcolor=theme.colour(self.app, "grey"))
        launch = self.pointer.launch
        return MARKED if launch and launch[0] <= column < launch[1] else PLAIN

    def _written(self, row: Row) -> dict[int, tuple[str, str | None]]:
        """Characters of names by column. A name that has no room, or whose room is taken, is left out."""
        taken: dict[int, tuple[str, str | None]] = {}
        for name in row.names:
            first, last = max(name.first, 0), min(name.last, self.columns)
            if last - first < LEAST_CELLS or any(column in taken for column in range(first, last)):
                continue
            text = " " + fit(name.text, last - first - 2) + " "
            taken.update({first + place: (character, name.category) for place, character in enumerate(text)})
        return taken


def _short(cell: Cell | None) -> str:
    return " " if cell is None else _block(cell.share, 0, 1, least=1)


def _named(name: str, width: int, letter: str, *, frame: bool = False) -> str:
    """A span of a width with as much of its name as has room, else its letter, if there is one."""
    if len(name) <= width - 2:
        return f"{name} ".ljust(width, "─")
    if width > LEAST_CELLS:
        return cut_frame(name, width) if frame else fit(name, width)
    return letter.ljust(width, "─")


def gutter(width: int) -> int:
    """Columns left of the lanes in a chart of a width."""
    return WIDE_GUTTER if width >= WIDE else GUTTER


def columns_in(width: int) -> int:
    """Columns of the lanes in a chart of a width."""
    return max(width - gutter(width), 10)


@functools.cache
def _style_of(shade: Shade, hue: Hue, *, filled: bool = False) -> Style:
    colour = theme.COLOURS[hue][shade]
    if not filled:
        return Style(color=colour)
    return Style(color="white" if shade == "light" else "black", bgcolor=colour)


def _block(share: float, from_below: int, height: int, least: int = 0) -> str:
    """The character of a bar of `height` lines, in the line `from_below`."""
    level = round(min(share, 1.0) * LEVELS * height)
    level = max(level, least, 1 if share > 0 else 0)
    return BLOCKS[min(max(level - LEVELS * from_below, 0), LEVELS)]


def ticks(first_ns: int, last_ns: int, width: int) -> list[tuple[int, str]]:
    """Columns and times of marks at round times, at least `TICK` columns apart, and more where labels are longer."""
    span = max(last_ns - first_ns, 1)
    for power, digit in itertools.product(range(40), (1, 2, 5)):
        step = digit * 10**power
        if step * width < TICK * span:
            continue
        times = range(-(-first_ns // step) * step, last_ns, step)
        marks = [((time - first_ns) * width // span, clock(time, step)) for time in times]
        # Each label ends, with its mark and a space, before the next one begins.
        if all(column + len(label) + 2 <= after for (column, label), (after, _) in itertools.pairwise(marks)):
            return marks
    return []


def clock(ns: int, step_ns: int) -> str:
    """A time on the axis, with the digits that tell times `step_ns` apart."""
    for exponent, unit in ((9, "s"), (6, "ms"), (3, "µs")):
        if ns >= 10**exponent:
            digits = max(0, exponent - len(str(step_ns)) + 1)
            # A float of seconds since 1970 could not hold nanoseconds.
            whole, rest = divmod(ns, 10**exponent)
            return f"{whole:,}{f'.{rest:0{exponent}d}'[: digits + 1] if digits else ''} {unit}"
    return f"{ns:,} ns"
