"""Numbers as people read them: three significant digits, with the unit that fits.

Tables of commands, screens and reports write with these functions. The unit of a column follows from its name, which in
this schema ends in it (`duration_ns`, `moved_bytes`, `share_pct`); `sum(duration_ns)` has the unit of its argument.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN: Final = "–"
_DAY: Final = 8.64e13
_TIMES: Final = ((365.25 * _DAY, "y"), (_DAY, "d"), (3.6e12, "h"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_ENERGIES: Final = ((1e9, "MJ"), (1e6, "kJ"), (1e3, "J"))
_HUNDRED: Final = 99.95
_TEN: Final = 9.995
_HUGE: Final = 1e9


def _digits(value: float) -> str:
    """`value` with three significant digits: 1.23, 12.3, 123."""
    size = abs(value)
    if size >= _HUNDRED:
        return f"{value:,.0f}" if size < _HUGE else f"{value:.3g}"
    return f"{value:.1f}" if size >= _TEN else f"{value:.2f}"


def _scaled(value: float | None, units: tuple[tuple[float, str], ...], unit: str) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for size, name in units:
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size)} {name}"
    return f"{value:,.0f} {unit}".rstrip()


def figure(value: float | None, unit: str = "") -> str:
    """Three significant digits, or all before the point: 0.41, 12.3, 2,304."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{_digits(value)} {unit}".rstrip()


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
    """A large number with the prefix that fits: 1.50 GFLOP, 2.85 TB/s."""
    return _scaled(value, tuple((size, prefix + unit) for size, prefix in _PREFIXES), unit)


def count(value: float | None) -> str:
    """A whole number with separators."""
    return fixed(value, 0)


def percent(value: float | None) -> str:
    """A share of a hundred."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.1f} %" if 0 < abs(value) < _HUNDRED else f"{value:,.0f} %"


def ratio(value: float | None) -> str:
    """A factor: 0.97×."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f}×"


def energy(millijoule: float | None) -> str:
    """An energy, given in millijoules."""
    if millijoule is not None and abs(millijoule) < _ENERGIES[-1][0] * 0.9995:
        return figure(millijoule, "mJ")
    return _scaled(millijoule, _ENERGIES, "mJ")


class Unit(NamedTuple):
    """How the values of a column are written, and its name without the unit that its values then show."""

    write: Callable[[float], str]
    title: str


def _signed(write: Callable[[float], str], value: float) -> str:
    return f"+{write(value)}" if value > 0 else write(value)


def is_change(name: str) -> bool:
    """Whether the values of a column are changes, which have their sign also where they are positive."""
    return _CHANGE.search(_argument(name)) is not None


def _byte_rate(value: float) -> str:
    return f"{size(value)}/s"


def _times(factor: float, write: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: write(value * factor)


_FLOP_RATE: Final = functools.partial(amount, unit="FLOP/s")
_BY_NAME: Final[tuple[tuple[str, Callable[[float], str]], ...]] = (
    (r"flops_per_second$", _FLOP_RATE),
    (r"bytes_per_second$", _byte_rate),
    (r"_per_s(?:econd)?$", figure),
    (r"_?tflops$", _times(1e12, _FLOP_RATE)),
    (r"_?tops$", _times(1e12, functools.partial(amount, unit="OP/s"))),
    (r"_?gbs$", _times(1e9, _byte_rate)),
    (r"^at_ns$", lambda ns: f"{ns / 1e6:,.3f} ms"),
    (r"^pct_|_(?:pct|percent)(?=_|$)", percent),
    (r"(?:^|_)ns(?=_|$)", duration),
    (r"(?:^|_)us$", _times(1e3, duration)),
    (r"(?:^|_)ms$", _times(1e6, duration)),
    (r"_s$|(?:^|_)seconds$", _times(1e9, duration)),
    (r"(?:^|_)bytes$", size),
    (r"(?:^|_)flops$", functools.partial(amount, unit="FLOP")),
    (r"(?:^|_)mj$", energy),
    (r"_w$", functools.partial(figure, unit="W")),
    (r"(?:^|_)mhz$", lambda mhz: f"{mhz:,.0f} MHz"),
    (r"(?<=ratio)$|(?<=speedup)$", ratio),
    (r"(?<=p_value)$", "{:.2g}".format),
)
"""What of a column's name is its unit, and how its values are written."""
_TITLES: Final = (
    (r"flops_per_second$", "FLOP/s"),
    (r"bytes_per_second$", "B/s"),
    (r"_per_s(?:econd)?$", "/s"),
    (r"^tflops$", "FLOP/s"),
    (r"^gbs$", "B/s"),
    (r"^pct_", "% "),
    (r"^at_ns$", "at"),
    (r"(launches|time)_pct$", r"\1 %"),
)
"""Names that would name something else without their unit."""
_ARGUMENT: Final = re.compile(
    r"(?:(?:sum|avg|mean|median|min|max|any_value|first|last|mode|abs|round|floor|ceil|mad|stddev\w*|\w*quantile\w*)\()*"
    r'(?:\w+\.)*"?(\w+)"?(?:, *[\d.]+)?\)*(?:, *[\d.]+\))*'
)
_INSTANT: Final = re.compile(r"(?:^|_)(?:start|end|begins?|ends|ts|t|epoch|base|first|last)_ns$")
"""Moments, by a clock of the trace: as a duration they would lose the digits that tell them apart."""
_CHANGE: Final = re.compile(r"(?:^|_)(?:delta|shift|change)(?:_|$)|^error_pct$|_error_pct$")
_IDENTIFIER: Final = re.compile(
    r"^$|(?:^|_)(?:ids?|stream|queue|device|rank|context|pid|tid|process|thread|correlation|index|ordinal|seq|number|year"
    r"|month|day|hour|minute|line|pass|iteration|version|grid|(?<!per_)block|cluster|tile|gemm|dim|[xyz])(?:_|$|\()"
)


@functools.cache
def unit_of(name: str) -> Unit | None:
    """The unit of a column of numbers, from its name (or from the argument of an aggregate); None where it has none."""
    inner = _argument(name)
    if _INSTANT.search(inner):
        return None
    for pattern, write in _BY_NAME:
        if re.search(pattern, inner):
            signed = functools.partial(_signed, write) if is_change(inner) else write
            return Unit(signed, _title(inner, pattern) or name if inner == name else name)
    return None


def _title(name: str, unit: str) -> str:
    """A name without its unit, which the cells show."""
    for pattern, short in _TITLES:
        if re.search(pattern, name):
            return re.sub(pattern, short, name)
    return re.sub(unit, "", name).strip("_")


@functools.cache
def is_identifier(name: str) -> bool:
    """Whether the whole numbers of a column name something instead of counting it: they get no separators."""
    return _IDENTIFIER.search(_argument(name)) is not None


def _argument(name: str) -> str:
    """What a column is an aggregate of: `duration_ns` for `sum(duration_ns)`; any other name as it is."""
    found = _ARGUMENT.fullmatch(name.lower())
    return found[1] if found else name.lower()
