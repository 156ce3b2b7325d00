"""A timeline in characters: a lane a row, each cell as high as its share of the time was busy, coloured by category."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kerneldb.tui import theme
from kerneldb.tui.numbers import BLOCKS, duration, fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from textual import events

    from kerneldb.tui.theme import Hue, Shade

Kind = Literal["header", "phases", "lane"]

LEVELS: Final = 8
MOST_LINES: Final = 5
GUTTER: Final = 16
WIDE_GUTTER: Final = 26
WIDE: Final = 120
HEAD: Final = 2
"""Lines above the lanes: the map of everything, and the times."""
LEAST_CELLS: Final = 4
"""Narrower launches get no name."""
PHASE_HUES: Final[tuple[Hue, ...]] = ("cyan", "magenta", "yellow", "green", "orange", "blue")
TICK: Final = 14
PLAIN: Final = Style()
DIM: Final = Style(dim=True)
MARKED: Final = Style(bold=True, underline=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One column of a lane: the share of its time that was busy (over 1 where launches overlap), and by what."""

    share: float
    category: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A name written into a lane, from the column `first` up to, and without, `last`."""

    first: int
    last: int
    text: str
    category: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A header, the phases of a trace, or a lane. `note` stands at the right of the gutter."""

    kind: Kind
    label: str
    note: str = ""
    cells: Mapping[int, Cell] = dataclasses.field(default_factory=dict)
    names: Sequence[Name] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """What a Gantt draws. Times in ns of the axis; `overview` are shares of the whole axis, left to right."""

    rows: Sequence[Row] = ()
    first_ns: int = 0
    last_ns: int = 0
    whole_ns: int = 0
    overview: Sequence[float] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """The cursor: the row of `Picture.rows`, the column, the columns of the launch there, and those measured."""

    row: int = 0
    column: int = 0
    launch: tuple[int, int] | None = None
    measured: tuple[int, int] | None = None


class Gantt(Widget, can_focus=True):
    """Draws a `Picture` with a `Pointer`. Keys belong to the pane around it; clicks are told as messages."""

    DEFAULT_CSS = """
    Gantt { height: 1fr; width: 1fr; background: $background; color: $foreground; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = set()

    class Pointed(Message):
        """A click on a column of a row of the picture."""

        def __init__(self, row: int, column: int) -> None:
            super().__init__()
            self.row = row
            self.column = column

    class Turned(Message):
        """The wheel: lanes down (+1) or up (-1)."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Resized(Message):
        """There is another number of columns now."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = Picture()
        self.pointer = Pointer()
        self._top = 0
        self._height = 1

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

    def rows_shown(self) -> tuple[int, int]:
        """The first row on the screen, and the one behind the last."""
        rows, room = self.picture.rows, self.size.height - HEAD
        place = self._top
        while place < len(rows) and room >= self._lines(rows[place]):
            room -= self._lines(rows[place])
            place += 1
        return self._top, place

    def render_line(self, y: int) -> Strip:
        """The map, the times, or a line of a row."""
        if y == 0:
            segments = self._map()
        elif y == 1:
            segments = self._times()
        else:
            segments = self._body(y - HEAD)
        return Strip(segments).crop_extend(0, self.size.width, None).apply_style(self.rich_style)

    # Where things are.

    def _fit_height(self) -> None:
        """Give lanes as many lines as there is room for."""
        lanes = sum(1 for row in self.picture.rows if row.kind == "lane") or 1
        room = self.size.height - HEAD - (len(self.picture.rows) - lanes)
        self._height = min(max(room // lanes, 1), MOST_LINES)

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
        """Scroll so that the row of the cursor, and a header right above it, can be seen."""
        self._fit_height()
        rows = self.picture.rows
        wanted = min(self.pointer.row, max(len(rows) - 1, 0))
        upper = wanted
        while upper > 0 and rows[upper - 1].kind != "lane":
            upper -= 1
        self._top = min(self._top, upper)
        while self._top < wanted and self.rows_shown()[1] <= wanted:
            self._top += 1
        while self._top > 0 and self._fits_all_from(self._top - 1):
            self._top -= 1

    def _fits_all_from(self, top: int) -> bool:
        return sum(map(self._lines, self.picture.rows[top:])) <= self.size.height - HEAD

    def on_resize(self) -> None:
        """Other columns need other bins."""
        self._follow()
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there."""
        row, _ = self._place(event.y - HEAD)
        if event.y >= HEAD and row >= 0 and event.x >= self.label_width:
            self.post_message(self.Pointed(row, event.x - self.label_width))

    def on_mouse_scroll_down(self) -> None:
        """Lanes further down."""
        self.post_message(self.Turned(1))

    def on_mouse_scroll_up(self) -> None:
        """Lanes further up."""
        self.post_message(self.Turned(-1))

    # Drawing.

    def _style(self, hue: Hue, *, filled: bool = False) -> Style:
        return _style_of(theme.shade(self.app), hue, filled)

    def _map(self) -> list[Segment]:
        """Everything in one line, with what is on the screen marked."""
        picture, width = self.picture, self.columns
        whole = max(picture.whole_ns, 1)
        first, last = (min(max(round(time / whole * width), 0), width) for time in (picture.first_ns, picture.last_ns))
        last = max(last, first + 1)
        segments = [Segment(fit(f"all {duration(picture.whole_ns)}", self.label_width), Style(dim=True))]
        for column in range(width):
            place = column * len(picture.overview) // width
            share = picture.overview[place] if picture.overview else 0.0
            seen = first <= column < last
            segments.append(
                Segment(_block(share, 0, 1), self._style("blue" if seen else "grey") + Style(underline=seen))
            )
        return segments

    def _times(self) -> list[Segment]:
        picture, width = self.picture, self.columns
        span = max(min(picture.last_ns, picture.whole_ns) - picture.first_ns, 1)
        line = [" "] * width
        for column, label in ticks(picture.first_ns, picture.last_ns, width):
            text = "╵" + label
            if any(column < over < column + len(text) for over in self._marked()):
                text = "╵"  # half a time would be another time
            if column + len(text) <= width:
                line[column : column + len(text)] = text
        return [
            Segment(fit(f"view {duration(span)}", self.label_width), Style(dim=True)),
            *self._pointed("".join(line), Style(dim=True)),
        ]

    def _marked(self) -> list[int]:
        """The columns of the line of times that are drawn over: where the cursor is, and what is measured."""
        first, last = self.pointer.measured or (0, -1)
        return [self.pointer.column, *range(first, last + 1)]

    def _pointed(self, text: str, style: Style) -> list[Segment]:
        """The line of times with the column of the cursor, and the measured ones."""
        strong = self._style("yellow") + Style(bold=True)
        measured = self.pointer.measured
        segments = []
        for column, character in enumerate(text):
            if column == self.pointer.column:
                segments.append(Segment("▼", strong))
            elif measured and measured[0] <= column <= measured[1]:
                segments.append(Segment("━", strong))
            else:
                segments.append(Segment(character, style))
        return segments

    def _body(self, line: int) -> list[Segment]:
        place, inner = self._place(line)
        if place < 0:
            return []
        row = self.picture.rows[place]
        if row.kind == "header":
            return [Segment(fit(row.label, self.size.width), Style(bold=True))]
        segments = self._gutter(row, place, inner)
        if row.kind == "phases":
            return segments + self._phases(row)
        return segments + self._lane(row, place, inner)

    def _gutter(self, row: Row, place: int, inner: int) -> list[Segment]:
        if inner:
            return [Segment(" " * self.label_width)]
        here = place == self.pointer.row
        style = Style(bold=here, dim=row.kind == "phases")
        marker = "▸" if here else " "
        label = fit(f"{marker}{row.label}", self.label_width - len(row.note) - 1)
        return [Segment(label, style), Segment(row.note + " ", Style(dim=not here))]

    def _phases(self, row: Row) -> list[Segment]:
        segments, column, width = [], 0, self.columns
        kinds = sorted({cell.category or "" for cell in row.cells.values()})
        while column < width:
            cell = row.cells.get(column)
            until = column + 1
            while until < width and _same(row.cells.get(until), cell):
                until += 1
            if cell is None:
                segments.append(Segment(" " * (until - column)))
            else:
                hue = PHASE_HUES[kinds.index(cell.category or "") % len(PHASE_HUES)]
                segments.append(Segment(_banner(cell.category or "", until - column), self._style(hue)))
            column = until
        return segments

    def _lane(self, row: Row, place: int, inner: int) -> list[Segment]:
        height = self._height
        from_below = height - 1 - inner
        text = self._written(row) if inner == (height - 1) // 2 else {}
        here = place == self.pointer.row
        segments = []
        for column in range(self.columns):
            cell = row.cells.get(column)
            if column in text:
                character, category = text[column]
                style = self._style(theme.category_hue(category), filled=True)
            elif cell is not None:
                character = _block(cell.share, from_below, height, least=1)
                style = self._style(theme.category_hue(cell.category))
            else:
                character, style = self._empty(column, lowest=not from_below)
            segments.append(Segment(character, style + self._over(column, here=here)))
        return list(Segment.simplify(segments))

    def _empty(self, column: int, *, lowest: bool) -> tuple[str, Style]:
        if column == self.pointer.column:
            return "│", DIM
        return ("·" if lowest and column % TICK == 0 else " "), DIM

    def _over(self, column: int, *, here: bool) -> Style:
        """How the cursor, and the launch under it, change a cell."""
        if not here:
            return PLAIN
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


def gutter(width: int) -> int:
    """Columns left of the lanes in a chart of a width."""
    return WIDE_GUTTER if width >= WIDE else GUTTER


def columns_in(width: int) -> int:
    """Columns of the lanes in a chart of a width."""
    return max(width - gutter(width), 10)


@functools.cache
def _style_of(shade: Shade, hue: Hue, filled: bool) -> Style:
    colour = theme.COLOURS[shade][hue]
    if not filled:
        return Style(color=colour)
    return Style(color="white" if shade == "light" else "black", bgcolor=colour)


def _same(one: Cell | None, other: Cell | None) -> bool:
    return (one is None) == (other is None) and (one is None or other is None or one.category == other.category)


def _banner(text: str, width: int) -> str:
    """`text` and a line of `width` cells; only the line where next to nothing of the text fits."""
    if len(text) <= width - 2:
        return f"{text} " + "─" * (width - len(text) - 1)
    return fit(text, width) if width > LEAST_CELLS else "─" * width


def _block(share: float, from_below: int, height: int, least: int = 0) -> str:
    """The character of a bar of `height` lines, in the line `from_below`."""
    level = round(min(share, 1.0) * LEVELS * height)
    level = max(level, least, 1 if share > 0 else 0)
    return BLOCKS[min(max(level - LEVELS * from_below, 0), LEVELS)]


def ticks(first_ns: int, last_ns: int, width: int) -> list[tuple[int, str]]:
    """Columns and times of marks at round times, at least `TICK` columns apart, and more where labels are longer."""
    span = max(last_ns - first_ns, 1)
    steps = (step for step in _round_steps() if step * width >= TICK * span)
    return next(marks for marks in (_marks(first_ns, last_ns, width, step) for step in steps) if _have_room(marks))


def _marks(first_ns: int, last_ns: int, width: int, step: int) -> list[tuple[int, str]]:
    span = max(last_ns - first_ns, 1)
    first = -(-first_ns // step) * step
    return [((time - first_ns) * width // span, clock(time, step)) for time in range(first, last_ns, step)]


def _have_room(marks: Sequence[tuple[int, str]]) -> bool:
    """Whether each label ends, with its mark and a space, before the next one begins."""
    return all(column + len(label) + 2 <= after for (column, label), (after, _) in itertools.pairwise(marks))


def _round_steps() -> Iterator[int]:
    """All of 1, 2 and 5 times a power of ten, from 1 upwards."""
    for power in itertools.count():
        yield from (digit * 10**power for digit in (1, 2, 5))


def clock(ns: int, step_ns: int) -> str:
    """A time on the axis, with the digits that tell times `step_ns` apart."""
    for exponent, unit in ((9, "s"), (6, "ms"), (3, "µs")):
        if ns >= 10**exponent:
            digits = max(0, exponent - len(str(step_ns)) + 1)
            # A float of seconds since 1970 could not hold nanoseconds.
            whole, rest = divmod(ns, 10**exponent)
            return f"{whole:,}{f'.{rest:0{exponent}d}'[: digits + 1] if digits else ''} {unit}"
    return f"{ns:,} ns"
