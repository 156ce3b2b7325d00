"""Dots in a plane, with logarithmic axes and roofs above them, or with axes in percent."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kerneldb.tui import theme
from kerneldb.tui.numbers import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

LEFT: Final = 7
"""Columns of the labels of the upright axis."""
LARGE: Final = 0.1
MIDDLE: Final = 0.01
"""Shares of the time from which a dot is large, or of middle size."""
SIZES: Final = ("·", "•", "●")
BRAILLE: Final = 0x2800
DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
MARGIN: Final = 2.0
"""Room around dots and roofs on logarithmic axes, as a factor."""
HUNDRED: Final = 100.0
PREFIXES: Final = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}
LEAST_PLAIN: Final = -3
"""Powers of ten from here on up to 0.1 are written out."""
FEW_POWERS: Final = 2
"""Over fewer powers of ten than these, 2 and 5 are marked too."""
NEAR_LINES: Final = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Dot:
    """A kernel: where it is, its share of the time, and its category."""

    x: float
    y: float
    share: float
    category: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Roof:
    """What bounds y: `height`, and `slope` times x."""

    height: float
    slope: float
    label: str

    def at(self, x: float) -> float:
        """The bound at x."""
        return min(self.height, self.slope * x)


@dataclasses.dataclass(frozen=True)
class Plane:
    """What a Scatter draws. With `percent`, both axes are linear from 0 to 100."""

    dots: Sequence[Dot] = ()
    roofs: Sequence[Roof] = ()
    x_title: str = ""
    y_title: str = ""
    percent: bool = False

    @functools.cached_property
    def x_range(self) -> tuple[float, float]:
        """The ends of the level axis."""
        return self._range([dot.x for dot in self.dots] + [roof.height / roof.slope for roof in self.roofs])

    @functools.cached_property
    def y_range(self) -> tuple[float, float]:
        """The ends of the upright axis."""
        return self._range([dot.y for dot in self.dots] + [roof.height for roof in self.roofs])

    def _range(self, values: Sequence[float]) -> tuple[float, float]:
        if self.percent:
            return 0.0, HUNDRED
        return (min(values) / MARGIN, max(values) * MARGIN) if values else (1.0, 10.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """A range of values laid over `cells` cells."""

    low: float
    high: float
    cells: int
    linear: bool = False

    def place(self, value: float) -> float:
        """The cell, with a fraction, of a value."""
        if self.linear:
            return (value - self.low) / (self.high - self.low) * (self.cells - 1)
        return math.log(value / self.low) / math.log(self.high / self.low) * (self.cells - 1)

    def value(self, place: float) -> float:
        """The value at a cell."""
        share = place / max(self.cells - 1, 1)
        if self.linear:
            return self.low + share * (self.high - self.low)
        return self.low * math.pow(self.high / self.low, share)

    def marks(self) -> list[tuple[int, str]]:
        """Cells and labels: powers of ten, or every 25 percent."""
        if self.linear:
            return [(round(self.place(value)), f"{value:.0f}") for value in (0.0, 25.0, 50.0, 75.0, HUNDRED)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        digits = (1, 2, 5) if math.log10(self.high / self.low) < FEW_POWERS else (1,)
        marks = []
        for power, digit in itertools.product(powers, digits):
            value = digit * 10.0**power
            if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9):
                marks.append((round(self.place(value)), _power(digit, power)))
        return marks


def _power(digit: int, exponent: int) -> str:
    """`digit` times 10 to the `exponent`, with a prefix: 100G."""
    if LEAST_PLAIN <= exponent < 0:
        return f"{digit * 10.0**exponent:.{-exponent}f}"
    prefix = PREFIXES.get(exponent // 3)
    return f"{digit}e{exponent}" if prefix is None else f"{digit * 10 ** (exponent % 3)}{prefix}"


class Scatter(Widget, can_focus=True):
    """Draws a `Plane`; `chosen` is the number of the dot that the cursor is on."""

    DEFAULT_CSS = """
    Scatter { height: 1fr; width: 1fr; background: $background; color: $foreground; }
    """

    @dataclasses.dataclass
    class Chosen(Message):
        """A click next to a dot."""

        number: int

    def __init__(self) -> None:
        super().__init__()
        self.plane = Plane()
        self.chosen: int | None = None
        self._drawn: tuple[tuple[int, int], Plane] | None = None
        self._grid: list[list[tuple[str, str | None]]] = []

    def show(self, plane: Plane | None = None, chosen: int | None = None) -> None:
        """Draw another plane, or put the cursor on another dot; what is None stays."""
        if plane is not None:
            self.plane, self._drawn = plane, None
        self.chosen = chosen if chosen is not None else self.chosen
        self.refresh()

    @property
    def columns(self) -> int:
        """Columns between the axes."""
        return max(self.size.width - LEFT - 1, 8)

    @property
    def lines(self) -> int:
        """Lines between the axes."""
        return max(self.size.height - 2, 4)

    @property
    def across(self) -> Scale:
        """The level axis."""
        return Scale(*self.plane.x_range, self.columns, self.plane.percent)

    @property
    def upright(self) -> Scale:
        """The upright axis; its cell 0 is the lowest line."""
        return Scale(*self.plane.y_range, self.lines, self.plane.percent)

    def cell(self, dot: Dot) -> tuple[int, int]:
        """The column of a dot, and its line counted from the top."""
        return round(self.across.place(dot.x)), self.lines - 1 - round(self.upright.place(dot.y))

    def render_line(self, y: int) -> Strip:
        """A line of dots with its label, or the level axis below."""
        dim = Style(dim=True)
        if y < self.lines:
            marks = {self.lines - 1 - place: text for place, text in self.upright.marks()}
            label = [Segment(" " * LEFT + "│", dim)]
            if y in marks:
                label = [Segment(fit(marks[y], LEFT - 1, right=True) + " ", dim), Segment("┤", dim)]
            segments = [*label, *self._dots(y)]
        elif y == self.lines:
            segments = [Segment(" " * LEFT + "└" + "─" * self.columns, dim)]
        else:
            # The labels of the level axis, and its title at the end
            line = [" "] * (self.columns + 1)
            end = self.columns - len(self.plane.x_title)
            free = 0
            for place, text in self.across.marks():
                left = max(place - len(text) // 2, 0)
                if free <= left and left + len(text) < end:
                    line[left : left + len(text)] = text
                    free = left + len(text) + 1
            line[max(end, 0) :] = self.plane.x_title
            segments = [Segment(" " * (LEFT + 1) + "".join(line), dim)]
        return Strip(segments).crop_extend(0, self.size.width, None).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Choose the nearest dot, where one is near."""
        places = [self.cell(dot) for dot in self.plane.dots]
        column, line = event.x - LEFT - 1, event.y
        near = [(abs(x - column) + NEAR_LINES * abs(y - line), number) for number, (x, y) in enumerate(places)]
        if near and min(near)[0] <= NEAR_LINES * 2:
            self.post_message(self.Chosen(min(near)[1]))

    def _dots(self, y: int) -> list[Segment]:
        """The cells of a line, in as few segments as their styles allow."""
        if self._drawn != ((self.columns, self.lines), self.plane):
            self._grid = self._draw()
            self._drawn = ((self.columns, self.lines), self.plane)
        segments = []
        for character, kind in self._grid[y]:
            style = Style(dim=True) if kind else Style()
            if kind is not None and kind.startswith("="):
                style = theme.category_style(self.app, kind[1:]) + Style(bold=True)
            segments.append(Segment(character, style))
        if self.chosen is not None and self.chosen < len(self.plane.dots):
            dot = self.plane.dots[self.chosen]
            column, line = self.cell(dot)
            if line == y and 0 <= column < len(segments):
                style = theme.category_style(self.app, dot.category) + Style(bold=True, reverse=True)
                segments[column] = Segment(self._glyph(dot), style)
        return list(Segment.simplify(segments))

    def _draw(self) -> list[list[tuple[str, str | None]]]:
        """All cells: the character and what it is of (a category after '=', 'roof', 'text', or None)."""
        grid: list[list[tuple[str, str | None]]] = [[(" ", None)] * self.columns for _ in range(self.lines)]
        self._draw_roofs(grid)
        for dot in sorted(self.plane.dots, key=lambda dot: dot.share):
            column, line = self.cell(dot)
            if 0 <= line < self.lines and 0 <= column < self.columns:
                grid[line][column] = (self._glyph(dot), f"={dot.category or ''}")
        _write(grid[0], 1, self.plane.y_title)
        # The names next to the level parts where nothing else is written; short where room lacks
        for roof in sorted(self.plane.roofs, key=lambda roof: -roof.height):
            line = self.lines - 1 - self._level(roof.height) // 4
            for text in (roof.label, roof.label.rpartition(", ")[0]):
                place = self._free(grid, line, len(text)) if text else None
                if place is not None:
                    _write(grid[place[0]], place[1], text)
                    break
        return grid

    def _glyph(self, dot: Dot) -> str:
        """A dot as large as its share of the time; where there are no colours the letter of its category."""
        if self.app.no_color:
            return theme.category_letter(dot.category, small=dot.share < MIDDLE)
        return SIZES[2] if dot.share >= LARGE else SIZES[1] if dot.share >= MIDDLE else SIZES[0]

    def _draw_roofs(self, grid: list[list[tuple[str, str | None]]]) -> None:
        cells: dict[tuple[int, int], int] = {}
        for roof in self.plane.roofs:
            before: int | None = None
            for place in range(2 * self.columns):
                level = self._level(roof.at(self.across.value(place / 2)))
                earlier = level if before is None else before
                for step in range(min(level, earlier), max(level, earlier) + 1):
                    line, dot = divmod(4 * self.lines - 1 - step, 4)
                    if 0 <= line < self.lines:
                        key = (line, place // 2)
                        cells[key] = cells.get(key, 0) | DOTS[place % 2][dot]
                before = level
        for (line, column), bits in cells.items():
            grid[line][column] = (chr(BRAILLE + bits), "roof")

    def _level(self, value: float) -> int:
        """The quarter of a line, from below, at a value."""
        scale = Scale(*self.plane.y_range, 4 * self.lines, self.plane.percent)
        return round(scale.place(max(value, self.plane.y_range[0] / MARGIN)))

    def _free(self, grid: list[list[tuple[str, str | None]]], line: int, size: int) -> tuple[int, int] | None:
        """Line and column with room for a name: near the right end of its roof, else left of it.

        Two lines below come last: another roof may lie between.
        """
        right = self.columns - size - 1
        begin = next((at for at, (_, kind) in enumerate(grid[line]) if kind == "roof"), 0)
        places = [(line - 1, right), (line + 1, right), (line, begin - size - 2), (line + 2, right)]
        for at, first in places:
            if 0 <= at < self.lines and first > 0:
                wanted = grid[at][first - 1 : first + size + 1]
                if all(kind is None for _, kind in wanted):
                    return at, first
        return None


def _write(row: list[tuple[str, str | None]], column: int, text: str) -> None:
    for place, character in enumerate(text, column):
        if 0 <= place < len(row):
            row[place] = (character, "text")
