"""A histogram of durations on a logarithmic axis, in which a range can be taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from kerneldb.tui import numbers, theme

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT: Final = 6
NONE: Final = "no durations of single launches"


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """`n` values, the smallest and the largest of them `low` and `high` (both in it); an empty bin has none."""

    n: int = 0
    low: int | None = None
    high: int | None = None


class Histogram(Widget, can_focus=True):
    """Bars over bins. Left and right walk, with shift they take a range, Enter hands it over."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"histogram--axis"}
    DEFAULT_CSS = f"""
    Histogram {{ height: {HEIGHT + 2}; padding: 0 1; }}
    Histogram .histogram--axis {{ text-style: dim; }}
    Histogram.-flat {{ height: 1; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "walk(-1, False)", "Shorter", show=False),
        Binding("right", "walk(1, False)", "Longer", show=False),
        Binding("shift+left", "walk(-1, True)", "Range", show=False),
        Binding("shift+right", "walk(1, True)", "Range", show=False),
        Binding("enter", "take", "Take"),
    ]

    bins: reactive[tuple[Bin, ...]] = reactive(())
    place: reactive[int | None] = reactive(None)
    origin: reactive[int | None] = reactive(None)

    @dataclasses.dataclass
    class Taken(Message):
        """Launches from `low` to `high` ns are wanted."""

        low: int
        high: int

    def __init__(self) -> None:
        super().__init__()
        self._none = ""

    def show(self, bins: Sequence[Bin], none: str = NONE) -> None:
        """Draw other bins; where there are none, say `none`."""
        self._none = none
        self.bins = tuple(bins)
        self.set_class(len(self.bins) < 2, "-flat")  # noqa: PLR2004
        self.place = self.origin = None
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Without bins there is no range to take."""
        return bool(self.bins) if action in {"walk", "take"} else True

    @property
    def taken(self) -> tuple[int, int] | None:
        """The range of bins under the cursor, both ends in it."""
        if self.place is None:
            return None
        other = self.place if self.origin is None else self.origin
        return min(self.place, other), max(self.place, other)

    def action_walk(self, by: int, extend: bool) -> None:
        """Move the cursor; with `extend` the place where it was stays an end of the range."""
        if not self.bins:
            return
        at = self.place if self.place is not None else (0 if by > 0 else len(self.bins) - 1) - by
        self.origin = (self.origin if self.origin is not None else at) if extend and self.place is not None else None
        self.place = min(max(at + by, 0), len(self.bins) - 1)

    def action_take(self) -> None:
        """Hand the range over."""
        chosen = self._chosen()
        if chosen.low is not None and chosen.high is not None:
            self.post_message(self.Taken(chosen.low, chosen.high))

    def _chosen(self) -> Bin:
        """The bins in the range as one; all of them where there is no range."""
        first, last = self.taken or (0, len(self.bins) - 1)
        bins = [one for one in self.bins[first : last + 1] if one.n]
        lows, highs = (
            (one.low for one in bins if one.low is not None),
            (one.high for one in bins if one.high is not None),
        )
        return Bin(sum(one.n for one in bins), min(lows, default=None), max(highs, default=None))

    def render_line(self, y: int) -> Strip:
        """A row of bars, the axis, or what is under the cursor."""
        width = self.content_size.width
        axis = self.rich_style + self.get_component_rich_style("histogram--axis", partial=True)
        if len(self.bins) < 2:  # noqa: PLR2004
            text = self._legend() if self.bins else self._none if y == 0 else ""
            segments = [Segment(text, axis)]
        elif y < HEIGHT:
            segments = self._bars(y)
        else:
            segments = [Segment(self._axis() if y == HEIGHT else self._legend(), axis)]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _bars(self, y: int) -> list[Segment]:
        top = max(one.n for one in self.bins)
        plain = self.rich_style + Style(color=theme.colour(self.app, "blue"))
        underline = self.app.no_color or None
        marked = self.rich_style + Style(color=theme.colour(self.app, "orange"), bold=True, underline=underline)
        taken, cells = self.taken, self._cells()
        segments = []
        for index, one in enumerate(self.bins):
            here = taken is not None and taken[0] <= index <= taken[1]
            filled = one.n / top * HEIGHT - (HEIGHT - 1 - y)
            height = min(max(round(filled * 8), 0), 8)
            if y == HEIGHT - 1 and one.n:
                height = max(height, 1)
            mark = "·" if here and not height else numbers.BLOCKS[height]
            segments.append(Segment(mark * cells, marked if here else plain))
        return segments

    def _cells(self) -> int:
        """How wide a bin is."""
        return min(max(1, self.content_size.width // len(self.bins)), 2)

    def _axis(self) -> str:
        known = [one for one in self.bins if one.low is not None]
        cells = self._cells() * len(self.bins)
        left, right = numbers.duration(known[0].low), numbers.duration(known[-1].high)
        return left + right.rjust(max(cells - len(left), len(right) + 1))

    def _legend(self) -> str:
        chosen, total = self._chosen(), sum(one.n for one in self.bins)
        if chosen.low is None:
            return "none in this range"
        low, high = numbers.duration(chosen.low), numbers.duration(chosen.high)
        launches = numbers.several(total, "launch", "launches")
        which = launches if chosen.n == total else f"{chosen.n:,} of {launches}"
        return f"{which} took {low}" + (f" to {high}" if high != low else "")
