"""Colours: eight hues for categories, picked for dark, light and sixteen-colour terminals; with NO_COLOR, none.

So colour never carries a meaning alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from rich.style import Style

if TYPE_CHECKING:
    from textual.app import App

Hue = Literal["blue", "green", "yellow", "red", "cyan", "magenta", "orange", "grey"]
Shade = Literal["dark", "light", "ansi"]

THEMES: Final = {"dark": "textual-dark", "light": "textual-light", "ansi": "ansi-dark"}

COLOURS: Final[dict[Shade, dict[Hue, str]]] = {
    "dark": {
        "blue": "#6ea8fe",
        "green": "#5fd38d",
        "yellow": "#f2c94c",
        "red": "#ff7b72",
        "cyan": "#56d4dd",
        "magenta": "#d2a8ff",
        "orange": "#ffa657",
        "grey": "#8b949e",
    },
    "light": {
        "blue": "#0b57d0",
        "green": "#1a7f37",
        "yellow": "#8a6100",
        "red": "#c0271d",
        "cyan": "#0b7285",
        "magenta": "#8250df",
        "orange": "#bc4c00",
        "grey": "#6e7781",
    },
    "ansi": {
        "blue": "blue",
        "green": "green",
        "yellow": "yellow",
        "red": "red",
        "cyan": "cyan",
        "magenta": "magenta",
        "orange": "bright_red",
        "grey": "bright_black",
    },
}

CATEGORY_HUES: Final[dict[str, Hue]] = {
    "GEMM": "blue",
    "GEMV": "blue",
    "CONVOLUTION": "blue",
    "ATTENTION": "magenta",
    "SOFTMAX": "magenta",
    "ELEMENTWISE": "green",
    "FUSED": "green",
    "OPTIMIZER": "green",
    "RANDOM": "green",
    "REDUCTION": "yellow",
    "NORMALIZATION": "yellow",
    "SCAN_SORT": "yellow",
    "COMMUNICATION": "red",
    "MEMCPY": "cyan",
    "MEMSET": "cyan",
    "COPY": "cyan",
    "CONCAT": "orange",
    "INDEXING": "orange",
    "OTHER": "grey",
}


def terminal_colours() -> bool | None:
    """Whether to use the terminal's own colours whatever the theme; None leaves it to the theme.

    With NO_COLOR set, Textual leaves these out, as it does not those of its own themes: they become greys.
    """
    return True if "NO_COLOR" in os.environ else None


def shade(app: App[object]) -> Shade:
    """Which of the three palettes the theme in use asks for."""
    theme = app.current_theme
    if theme.name.startswith("ansi"):
        return "ansi"
    return "dark" if theme.dark else "light"


def colour(app: App[object], hue: Hue) -> str:
    """The colour of a hue, as Rich names it."""
    return COLOURS[shade(app)][hue]


def ink(app: App[object], hue: Hue) -> str:
    """The colour of a hue, as the styles of Content name it: colours of the terminal are not those of the web there."""
    name = colour(app, hue)
    return f"ansi_{name}" if shade(app) == "ansi" else name


def category_hue(category: str | None) -> Hue:
    """The hue of a kernel category; grey where it has none."""
    return CATEGORY_HUES.get(category or "", "grey")


def category_style(app: App[object], category: str | None) -> Style:
    """How things of a category are drawn, without a background."""
    return Style(color=colour(app, category_hue(category)))
