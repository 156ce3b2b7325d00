"""Numbers, bars and texts as the screens write them: short, with a unit, the same digits everywhere."""

from __future__ import annotations

import math
from typing import Final

from kerneldb.output import units
from kerneldb.output.text import beginning, display_width, escape, shorten

UNKNOWN: Final = units.UNKNOWN
duration, size, energy, amount = units.duration, units.size, units.energy, units.amount
count, figure, fixed, percent, ratio = units.count, units.figure, units.fixed, units.percent, units.ratio
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_KEPT: Final = 16
"""So many characters per cell are enough of a text that is cut: few of them take no cell at all."""

LONGEST_COPIED: Final = 1_000_000
"""Characters that go to the clipboard, which is one sequence to the terminal."""


def several(number: int, one: str, more: str = "") -> str:
    """How many of what: `1 launch`, `2 launches`; `more` is the word for several, by default with an s."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def safe(text: str) -> str:
    """`text` with control characters as escapes: names in traces are foreign."""
    return escape(text)


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled to `share` (0 to 1) in eighths of a cell; what is no number fills nothing."""
    eighths = 0 if math.isnan(share) else round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: list[float], top: float | None = None) -> str:
    """One character per value, as high as its share of the largest (or of `top`)."""
    largest = top or max(filter(math.isfinite, values), default=0.0)
    if not largest or not math.isfinite(largest):
        return " " * len(values)
    return "".join(BLOCKS[_height(value / largest)] for value in values)


def _height(share: float) -> int:
    """Of nine heights: nothing is blank, anything else shows."""
    return 0 if math.isnan(share) or share <= 0 else max(round(min(share, 1.0) * 8), 1)


def first_of(text: str, most: int) -> str:
    """`text`, or its first `most` characters, and that they are: texts of a trace may have millions."""
    return text if len(text) <= most else f"{text[:most]}… (the first {most:,} of {len(text):,} characters)"


def fit(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis at its end (or in its middle).

    Control characters are escaped.
    """
    clean = cut(text, width, middle=middle)
    space = " " * (width - display_width(clean))
    return space + clean if right else clean + space


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """`text` in at most `width` cells, cut as `fit` does."""
    ends = _ends(text, max(width, 1) * _KEPT)
    clean = escape(ends)
    if ends is text and display_width(clean) <= width:
        return clean
    if middle and clean.isascii():
        return shorten(clean, width)
    return beginning(clean, width - 1) + "…" if width > 0 else ""


def cut_before(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut at its beginning: of a path, the file and the line stay."""
    ends = _ends(text, max(width, 1) * _KEPT)
    clean = escape(ends)
    if ends is text and display_width(clean) <= width:
        return clean
    return "…" + beginning(clean[::-1], width - 1)[::-1] if width > 0 else ""


def cut_frame(name: str, width: int) -> str:
    """A Python frame in at most `width` cells: of a file and its line the end stays, of what is built in the begin."""
    return cut(name, width) if name.startswith(("<", "nn.Module: ")) else cut_before(name, width)


def _ends(text: str, most: int) -> str:
    """`text`, or its two ends: a name may have a million characters, which are not measured to draw a cell."""
    return text if len(text) <= 2 * most else text[:most] + text[-most:]
