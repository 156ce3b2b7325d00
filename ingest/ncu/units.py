"""Units of ncu, of all versions and of `--print-units auto` and `base`: a power of ten and the base unit.

Prefixes are decimal (Kbyte = 1000 byte). Up to 2022 rates of clocks read cycle/nsecond, later Ghz; both are hz here.
"""

from __future__ import annotations

import functools
import re
from typing import Final

TIMES: Final = {
    "ns": 0,
    "nsecond": 0,
    "us": 3,
    "usecond": 3,
    "ms": 6,
    "msecond": 6,
    "s": 9,
    "second": 9,
}
"""Power of ten to nanoseconds."""
PREFIXES: Final = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
PREFIXED: Final = re.compile(r"([KkMGTP]?)(byte|bytes|B|hz|Hz|cycle|inst|sector|request|warp|thread|block|branch)")
SINGULAR: Final = {"bytes": "byte", "B": "byte", "Hz": "hz", "sectors": "sector", "branches": "branch"}


@functools.cache
def base_unit(printed: str) -> tuple[int, str | None]:
    """Power of ten from the printed unit to the base unit, and the base unit (None: a bare number).

    A unit that is not known stays as it is printed.
    """
    unit = printed.strip()
    if not unit:
        return 0, None
    above, slash, below = unit.partition("/")
    power, word = _word(above)
    if not slash:
        return power, word
    per, divisor = _divisor(below)
    if word == "cycle" and divisor == "s":
        return power + per, "hz"
    return power + per, f"{word}/{divisor}"


def _word(text: str) -> tuple[int, str]:
    if text in TIMES:
        return TIMES[text], "ns"
    found = PREFIXED.fullmatch(text)
    if found is None:
        return 0, SINGULAR.get(text, text)
    return PREFIXES[found[1]], SINGULAR.get(found[2], found[2])


def _divisor(text: str) -> tuple[int, str]:
    """Rates are per second; a prefix of another divisor (%/Kbyte) stays, since its size is the unit's own meaning."""
    return (9 - TIMES[text], "s") if text in TIMES else (0, text)
