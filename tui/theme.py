"""Colours: eight hues for categories, picked for dark, light and sixteen-colour terminals; with NO_COLOR, letters.

So colour never carries a meaning alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.app import App
    from textual.color import Color

Hue = Literal["blue", "green", "yellow", "red", "cyan", "magenta", "orange", "grey"]
Shade = Literal["dark", "light", "ansi"]

THEMES: Final = {"dark": "textual-dark", "light": "textual-light", "ansi": "ansi-dark"}

COLOURS: Final[dict[Hue, dict[Shade, str]]] = {
    "blue": {"dark": "#2c7fff", "light": "#072bfe", "ansi": "blue"},
    "green": {"dark": "#0c9201", "light": "#00663d", "ansi": "green"},
    "yellow": {"dark": "#d4db01", "light": "#747803", "ansi": "yellow"},
    "red": {"dark": "#f5376e", "light": "#d53561", "ansi": "red"},
    "cyan": {"dark": "#00cffe", "light": "#057f9b", "ansi": "cyan"},
    "magenta": {"dark": "#c550b2", "light": "#8701a2", "ansi": "magenta"},
    "orange": {"dark": "#f39468", "light": "#7c3000", "ansi": "bright_red"},
    "grey": {"dark": "#afb9c3", "light": "#333c45", "ansi": "bright_black"},
}
"""No two look alike without red, green or blue cones: CIEDE2000 of each pair is 12 or more (tests/test_colours.py)."""

HUE_CATEGORIES: Final[dict[Hue, str]] = {
    "blue": "GEMM GEMV CONVOLUTION",
    "magenta": "ATTENTION SOFTMAX",
    "green": "ELEMENTWISE FUSED OPTIMIZER RANDOM",
    "yellow": "REDUCTION NORMALIZATION SCAN_SORT",
    "red": "COMMUNICATION",
    "cyan": "MEMCPY MEMSET COPY",
    "orange": "CONCAT INDEXING",
    "grey": "OTHER",
}
CATEGORY_HUES: Final[dict[str, Hue]] = {
    category: hue for hue, categories in HUE_CATEGORIES.items() for category in categories.split()
}

CATEGORY_LETTERS: Final[dict[str, str]] = {
    "GEMM": "G", "GEMV": "V", "CONVOLUTION": "C", "ATTENTION": "A", "SOFTMAX": "S", "ELEMENTWISE": "E", "FUSED": "F",
    "OPTIMIZER": "O", "RANDOM": "D", "REDUCTION": "R", "NORMALIZATION": "N", "SCAN_SORT": "T", "COMMUNICATION": "X",
    "MEMCPY": "M", "MEMSET": "Z", "COPY": "P", "CONCAT": "K", "INDEXING": "I", "OTHER": "U",
}  # fmt: skip
"""What stands for categories where there are no colours; the legends say which."""
NO_CATEGORY: Final = "?"


def terminal_colours() -> bool | None:
    """Whether to use the terminal's own colours whatever the theme; None leaves it to the theme.

    With NO_COLOR set, Textual leaves these out, as it does not those of its own themes: they become greys.
    """
    return True if "NO_COLOR" in os.environ else None


class ControlCharacters(LineFilter):
    """Blanks what is not printable in what is drawn: names in traces are foreign, and terminals act on some of it.

    Columns stay where they are: there is a blank for each cell that such a character takes, mostly none. Screens show
    most of them as escapes; what no screen thought of (messages of the engine, notifications) ends here.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 (declared by Textual)
        """The segments without control characters."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(_blanked(segment.text), segment.style, segment.control) for segment in segments]


def _blanked(text: str) -> str:
    return "".join(one if one.isprintable() else " " * cell_len(one) for one in text)


CONTROL_CHARACTERS: Final = ControlCharacters()


def shade(app: App[object]) -> Shade:
    """Which of the three palettes the theme in use asks for."""
    theme = app.current_theme
    if theme.name.startswith("ansi"):
        return "ansi"
    return "dark" if theme.dark else "light"


def colour(app: App[object], hue: Hue) -> str:
    """The colour of a hue, as Rich names it."""
    return COLOURS[hue][shade(app)]


def ink(app: App[object], hue: Hue) -> str:
    """The colour of a hue, as the styles of Content name it: colours of the terminal are not those of the web there."""
    name = colour(app, hue)
    return f"ansi_{name}" if shade(app) == "ansi" else name


def category_hue(category: str | None) -> Hue:
    """The hue of a kernel category; grey where it has none."""
    return CATEGORY_HUES.get(category or "", "grey")


def category_letter(category: str | None, *, small: bool = False) -> str:
    """The letter of a kernel category, where there are no colours; that of something `small` is a small one."""
    letter = CATEGORY_LETTERS.get(category or "", NO_CATEGORY)
    return letter.lower() if small else letter


def category_style(app: App[object], category: str | None) -> Style:
    """How things of a category are drawn, without a background."""
    return Style(color=colour(app, category_hue(category)))
