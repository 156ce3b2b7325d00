"""Numbers as the screens write them: short, with a unit, the same digits everywhere."""

from __future__ import annotations

import itertools
import math
from typing import Final

from kerneldb.output.text import display_width, escape, shorten

UNKNOWN: Final = "–"
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_DAY: Final = 8.64e13
_TIMES: Final = ((365.25 * _DAY, "y"), (_DAY, "d"), (3.6e12, "h"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_COUNTS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ENERGIES: Final = ((1e9, "MJ"), (1e6, "kJ"), (1e3, "J"), (0.0, "mJ"))
_HUNDRED: Final = 99.95
_TEN: Final = 9.995
_KEPT: Final = 16
"""So many characters per cell are enough of a text that is cut: few of them take no cell at all."""


def _digits(value: float) -> str:
    """`value` with three significant digits: 1.23, 12.3, 123."""
    size = abs(value)
    if size >= _HUNDRED:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= _TEN else f"{value:.2f}"


def _scaled(value: float | None, units: tuple[tuple[float, str], ...], unit: str) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for size, name in units:
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size)} {name}"
    return f"{value:,.0f} {unit}".rstrip()


def figure(value: float) -> str:
    """Three significant digits, or all before the point: 0.41, 12.3, 2,304."""
    return _digits(value) if math.isfinite(value) else UNKNOWN


def fixed(value: float | None, digits: int) -> str:
    """So many digits after the point, for columns in which the points stand below each other."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def duration(ns: float | None) -> str:
    """A time in nanoseconds, with the unit that fits."""
    return _scaled(ns, _TIMES, "ns")


def size(count: float | None) -> str:
    """A number of bytes, in decimal units."""
    return _scaled(count, _SIZES, "B")


def amount(value: float | None, unit: str = "") -> str:
    """A large number with the prefix that fits: 1.50 GFLOP."""
    return _scaled(value, tuple((size, prefix + unit) for size, prefix in _COUNTS), unit)


def count(value: float | None) -> str:
    """A whole number with separators."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:,.0f}"


def several(number: int, one: str, more: str = "") -> str:
    """How many of what: `1 launch`, `2 launches`; `more` is the word for several, by default with an s."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def percent(value: float | None) -> str:
    """A share of a hundred."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f} %" if 0 < abs(value) < _HUNDRED else f"{value:.0f} %"


def ratio(value: float | None) -> str:
    """A factor: 0.97×."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f}×"


def energy(millijoule: float | None) -> str:
    """An energy, given in millijoules."""
    if millijoule is None or not math.isfinite(millijoule):
        return UNKNOWN
    size, unit = next((size, unit) for size, unit in _ENERGIES if abs(millijoule) >= size * 0.9995)
    return f"{_digits(millijoule / (size or 1.0))} {unit}"


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
    return shorten(clean, width) if middle and clean.isascii() else _begun(clean, width)


def _ends(text: str, most: int) -> str:
    """`text`, or its two ends: a name may have a million characters, which are not measured to draw a cell."""
    return text if len(text) <= 2 * most else text[:most] + text[-most:]


def _begun(text: str, width: int) -> str:
    """The characters from the first on that leave a cell for the ellipsis."""
    if width <= 0:
        return ""
    taken = itertools.accumulate(map(display_width, text))
    return text[: sum(1 for _ in itertools.takewhile(lambda cells: cells < width, taken))] + "…"
