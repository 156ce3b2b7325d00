"""Units of ncu, of all versions and of `--print-units auto` and `base`: a power of ten and the base unit.

Prefixes are decimal (Kbyte = 1000 byte). Up to 2022 rates of clocks read cycle/nsecond, later Ghz; both are hz here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Final

from kerneldb.ingest.digits import whole

TIMES: Final = {**{"ns": 0, "us": 3, "ms": 6, "s": 9}, **{"nsecond": 0, "usecond": 3, "msecond": 6, "second": 9}}
"""Power of ten to nanoseconds."""
PREFIXES: Final = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
PREFIXED: Final = re.compile(r"([KkMGTP]?)(byte|bytes|B|hz|Hz|cycle|inst|sector|request|warp|thread|block|branch)")
SINGULAR: Final = {"bytes": "byte", "B": "byte", "Hz": "hz", "sectors": "sector", "branches": "branch"}
SIX_DECIMALS: Final = re.compile(r"-?\d+\.\d{6}")
SCIENTIFIC: Final = re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+")
DIGITS: Final = re.compile(r"-?\d+(?:\.\d*)?")
# Blanks of all kinds, and what is left of one that was written in another encoding.
BLANKS: Final = " \u00a0\u202f\u2009\ufffd"
APOSTROPHES: Final = "'\u2019"
NUMBER: Final = re.compile(rf"-?\d+(?:[.,{BLANKS}{APOSTROPHES}]\d+)+")
SEPARATOR: Final = re.compile(rf"[.,{BLANKS}{APOSTROPHES}]")
GROUP_DIGITS: Final = 3
UNIFIED: Final = str.maketrans(dict.fromkeys(BLANKS, " ") | dict.fromkeys(APOSTROPHES, "'"))
OTHER: Final = {".": ",", ",": ".", " ": ",", "'": "."}


@functools.cache
def base_unit(printed: str) -> tuple[int, str | None]:
    """Power of ten from the printed unit to the base unit, and the base unit (None: a bare number).

    A unit that is not known stays as it is printed. Rates are per second; a prefix of another divisor (%/Kbyte) stays,
    since its size is the unit's own meaning.
    """
    unit = printed.strip()
    if not unit:
        return 0, None
    above, slash, below = unit.partition("/")
    found = PREFIXED.fullmatch(above)
    if above in TIMES:
        power, word = TIMES[above], "ns"
    elif found is None:
        power, word = 0, SINGULAR.get(above, above)
    else:
        power, word = PREFIXES[found[1]], SINGULAR.get(found[2], found[2])
    if not slash:
        return power, word
    per, divisor = (9 - TIMES[below], "s") if below in TIMES else (0, below)
    return power + per, "hz" if word == "cycle" and divisor == "s" else f"{word}/{divisor}"


@dataclasses.dataclass(frozen=True, slots=True)
class Style:
    """What separates groups of digits ('' where nothing does) and decimals."""

    group: str = ","
    decimal: str = "."

    def read(self, text: str, exponent: int = 0) -> tuple[float, float] | None:
        """Value and half of the last printed digit, both times 10**exponent; None where `text` is none or too large."""
        found = self._read(text, exponent)
        return None if found is None or not math.isfinite(found[0]) else found

    def _read(self, text: str, exponent: int) -> tuple[float, float] | None:
        plain = text
        if not DIGITS.fullmatch(text) or (self.decimal != "." and not SIX_DECIMALS.fullmatch(text)):
            if SCIENTIFIC.fullmatch(text):
                return _scientific(text, exponent)
            plain = text.translate(UNIFIED).replace(self.group, "") if self.group else text
            plain = plain.replace(self.decimal, ".")
            if not DIGITS.fullmatch(plain):
                return None
        decimals = len(plain) - plain.find(".") - 1 if "." in plain else 0
        return float(f"{plain}e{exponent}"), float(f"5e{exponent - decimals - 1}")


@dataclasses.dataclass(slots=True)
class Evidence:
    """What the numbers of a file say about its style, each with an example."""

    decimals: dict[str, str] = dataclasses.field(default_factory=dict)
    groups: dict[str, str] = dataclasses.field(default_factory=dict)
    open: dict[str, str] = dataclasses.field(default_factory=dict)

    def see(self, text: str, *, whole: bool = False) -> None:
        """Take one number of the file into account; other texts say nothing. `whole`: it cannot have decimals."""
        if text.isdigit() or SIX_DECIMALS.fullmatch(text) or not NUMBER.fullmatch(text):
            return
        marks = SEPARATOR.findall(text.translate(UNIFIED))
        at, last = text.rfind(SEPARATOR.findall(text)[-1]), marks[-1]
        head, tail = text[:at].lstrip("-"), len(text) - at - 1
        if last in "' ":
            self.groups.setdefault(last, text)
        elif len(set(marks)) > 1:
            self.decimals.setdefault(last, text)
            self.groups.setdefault(marks[0], text)
        elif len(marks) > 1 or (whole and tail == GROUP_DIGITS):
            self.groups.setdefault(last, text)
        elif tail != GROUP_DIGITS or len(head) > GROUP_DIGITS or head == "0":
            self.decimals.setdefault(last, text)
        else:
            self.open.setdefault(last, text)

    def style(self) -> Style:
        """The one style that fits all numbers seen. Raises ValueError, saying which numbers leave it open."""
        if len(self.decimals) > 1 or len(self.groups) > 1 or set(self.decimals) & set(self.groups):
            seen = " and ".join(f"`{text}`" for text in [*self.decimals.values(), *self.groups.values()])
            message = f"the numbers contradict each other: {seen}"
            raise ValueError(message)
        decimal = next(iter(self.decimals), None)
        group = next(iter(self.groups), None)
        if decimal is None and group is None and "." in self.open:
            text = self.open["."]
            whole, part = text.split(".")
            message = f"`{text}` may be {whole}{part} or {whole} and {part}/1000, and no other number decides it"
            raise ValueError(message)
        if decimal is None and group is None:
            return Style()
        decimal = decimal or OTHER[group or ","]
        return Style(group or OTHER[decimal], decimal)


def general(text: str) -> tuple[float, float] | None:
    """Value and half of the last digit of a number in the form `%.4g`, which has no groups; None for other texts.

    ncu prints estimated speedups so, in the C locale whatever that of the page is (2022 to 2025).
    """
    return Style("", ".").read(text.replace(",", "."))


def _scientific(text: str, exponent: int) -> tuple[float, float]:
    mantissa, printed = re.split("[eE]", text)
    decimals, power = len(mantissa.partition(".")[2]), (whole(printed.removeprefix("+")) or 0) + exponent
    return float(f"{mantissa}e{power}"), float(f"5e{power - decimals - 1}")
