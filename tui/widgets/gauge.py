"""A reading in large digits, with how it came there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.widgets import Digits, Static

from kerneldb.tui.numbers import UNKNOWN, sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


class Gauge(Vertical):
    """A title, a number, and a line of the readings so far, the latest at the right."""

    DEFAULT_CSS = """
    Gauge { height: 5; width: 1fr; padding: 0 1; }
    Gauge .gauge--title { color: $text-muted; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Gauge Digits { height: 3; width: 1fr; }
    Gauge .gauge--line { height: 1; color: $text-accent; text-wrap: nowrap; }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._title = title
        self._readings: Sequence[float] = ()

    def compose(self) -> ComposeResult:
        """The three parts."""
        yield Static(self._title, classes="gauge--title", markup=False)
        yield Digits("")
        yield Static("", classes="gauge--line", markup=False)

    def show(self, readings: Sequence[float]) -> None:
        """Show the latest of `readings`; nothing is known where there are none."""
        self._readings = readings
        self.query_one(Digits).update(f"{readings[-1]:,.0f}" if readings else UNKNOWN)
        self._draw_line()

    def on_resize(self) -> None:
        """Readings may come before it is known how many have room."""
        self._draw_line()

    def _draw_line(self) -> None:
        width = max(self.size.width - 2, 1)
        self.query_one(".gauge--line", Static).update(sparkline(list(self._readings)[-width:]))
