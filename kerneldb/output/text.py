"""Values as text on one line, for people.

Numbers are written by `units`: with a fitting unit where the name of the column has one, with thousands where they
count. Of other floats, the decimals of a column follow its largest value. NULL is `–`. Intervals read as the engine
writes them (3 days).

`escape` and `harmless` are what makes foreign text harmless, for terminals, pages and plots alike: names in traces must
not drive the terminal, nor look like what they are not.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from kerneldb.output import units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FILLERS: Final = "\u115f\u1160\u3164\uffa0"
"""Letters of Hangul that nobody sees."""
_MARKS: Final = 3
"""So many combining marks may stand on one character; more of them cover the lines above and below."""
_HUGE = 1e15
_TINY = 1e-3
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[kKMGT]?B|[mk]?J|W|[kMGTP]?(?:FL)?OP)(?!\w))")
"""The space between a figure and its unit."""


def format_column(name: str, values: Sequence[Any]) -> list[str]:
    """The text of each value of the column `name`."""
    decimals = _decimals(values)
    return [format_value(value, name, decimals=decimals) for value in values]


def format_value(value: Any, name: str = "", *, decimals: int | None = None) -> str:
    """`value` of the column `name` on one line; of a float without unit `decimals`, None for six significant digits."""
    match value:
        case None | bool():
            return units.UNKNOWN if value is None else str(value).lower()
        case int() | float() | decimal.Decimal():
            return _number(value, name, decimals)
        case str():
            return escape(value)
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
        case list() | dict() | tuple():
            return _interval(*value) if hasattr(value, "nanoseconds") else _json(value)
    return str(value)


def _number(value: float | decimal.Decimal, name: str, decimals: int | None) -> str:
    if not math.isfinite(value):
        return str(value)
    if (unit := units.unit_of(name)) is not None:
        return unit.write(float(value))
    separator = "" if units.is_identifier(name) else ","
    if not isinstance(value, float):
        return f"{value:{separator}}"
    return f"{value:.6g}" if decimals is None else f"{value:{separator}.{decimals}f}"


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """As the engine writes it: 1 year 2 months 3 days 04:05:06."""
    years, months = (int(math.copysign(part, months)) for part in divmod(abs(months), 12))
    units = (("year", years), ("month", months), ("day", days))
    parts = [f"{number} {unit}{'' if abs(number) == 1 else 's'}" for unit, number in units if number]
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    after = f".{fraction:09}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{after}"
    if nanoseconds or not parts:
        parts.append(f"-{clock}" if nanoseconds < 0 else clock)
    return " ".join(parts)


def escape(text: str) -> str:
    r"""`text` on one line: what Unicode does not call printable is shown as an escape (`\x1b`, `\u202e`).

    That are controls, marks that change the direction of writing, characters without width, halves of surrogate pairs,
    and spaces other than the usual one. Of combining marks, the fourth and further ones on a character are escaped too.
    """
    return text if text.isascii() and text.isprintable() else "".join(_shown(text))


def harmless(text: str) -> str:
    """As `escape`, but for line feeds and tabs, which stay."""
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for one in text:
        marks = marks + 1 if _is_mark(one) else 0
        is_plain = one.isprintable() and marks <= _MARKS and one not in _FILLERS
        yield one if is_plain else one.encode("unicode_escape").decode()


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me"}


def shorten(text: str, size: int) -> str:
    """`text` with its middle replaced by one ellipsis so that it takes at most `size` cells."""
    if display_width(text) <= size:
        return text
    tail = (size - 1) // 2
    return beginning(text, size - 1 - tail) + "…" + beginning(text[::-1], tail)[::-1]


def beginning(text: str, size: int) -> str:
    """The characters from the first on that take at most `size` cells."""
    taken = itertools.accumulate(map(display_width, text))
    return text[: sum(1 for _ in itertools.takewhile(lambda cells: cells <= size, taken))]


def wrapped(text: str, size: int, first: str = "", indent: str = "") -> list[str]:
    """Lines of at most `size` characters, a figure with its unit on one; a word that is longer is cut.

    `first` begins the first line, `indent` the others. Linear in the length of the words, too.
    """
    whole = _UNIT.sub("\xa0", re.sub(rf"\S{{{size - len(indent)}}}(?=\S)", r"\g<0> ", text))
    lines = textwrap.wrap(whole, size, initial_indent=first, subsequent_indent=indent)
    return [line.replace("\xa0", " ") for line in lines]


def display_width(text: str) -> int:
    """Terminal cells that `text` takes (wide East Asian characters take two, combining ones none)."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if _is_mark(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _decimals(values: Sequence[Any]) -> int | None:
    """Decimals for a column of floats: about four significant digits of its largest value; None for extreme scales."""
    largest = max((abs(value) for value in values if isinstance(value, float) and math.isfinite(value)), default=0.0)
    if largest == 0.0:
        return 1
    if not _TINY <= largest < _HUGE:
        return None
    return max(1, 3 - math.floor(math.log10(largest)))


def _json(value: object) -> str:
    from kerneldb.output.records import encode

    return escape(encode(value).decode())
