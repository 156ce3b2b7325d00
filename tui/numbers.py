"""Numbers as the screens write them: short, with a unit, the same digits everywhere."""

from __future__ import annotations

import math
from typing import Final

from kerneldb.output.text import display_width, escape, shorten

UNKNOWN: Final = "–"
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_TIMES: Final = ((3.6e12, "h"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_COUNTS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ENERGIES: Final = ((1e9, "MJ"), (1e6, "kJ"), (1e3, "J"), (0.0, "mJ"))
_HUNDRED: Final = 99.95
_TEN: Final = 9.995


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
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share of a hundred."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.1f} %" if 0 < abs(value) < _HUNDRED else f"{value:.0f} %"


def ratio(value: float | None) -> str:
    """A factor: 0.97×."""
    return UNKNOWN if value is None else f"{value:.2f}×"


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
    """A bar of `width` cells, filled to `share` (0 to 1) in eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: list[float], top: float | None = None) -> str:
    """One character per value, as high as its share of the largest (or of `top`)."""
    largest = top or max(values, default=0.0)
    if not largest:
        return " " * len(values)
    return "".join(BLOCKS[_height(value / largest)] for value in values)


def _height(share: float) -> int:
    """Of nine heights: nothing is blank, anything else shows."""
    return 0 if share <= 0 else min(max(round(share * 8), 1), 8)


def fit(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis at its end (or in its middle).

    Control characters are escaped.
    """
    clean = escape(text)
    taken = display_width(clean)
    if taken > width:
        clean = shorten(clean, width) if middle and clean.isascii() else _cut(clean, width)
        taken = display_width(clean)
    space = " " * (width - taken)
    return space + clean if right else clean + space


def _cut(text: str, width: int) -> str:
    if width <= 0:
        return ""
    if text.isascii():
        return text[: width - 1] + "…"
    kept = text
    while kept and display_width(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"
