"""Values of JSON as the columns take them: the text of what is no number, whole numbers, and nanoseconds."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

import msgspec

USUAL_DIGITS: Final = 15
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,25}")
INT64: Final = (-(2**63), 2**63 - 1)
UINT64: Final = (0, 2**64 - 1)
FLOAT_LIMIT_US: Final = 2.0**43
"""Below it a 64-bit float of microseconds keeps three decimals once the whole part is split off."""
SATURATED_US: Final = 9 * 10**15
"""A time that 64 bits of nanoseconds do not hold stays far too large (`times.SATURATED`): refused, and counted."""


class ExactFloat(float):
    """A JSON number that remembers its digits: float64 cannot hold nanoseconds of an absolute time."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> ExactFloat:
        """Take the digits as printed."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def text_of(value: Any) -> str | None:
    """The text of a value of JSON: strings as they are, all else as JSON with a blank behind each comma and colon.

    Floats have no exponent, and no decimals where they are whole, whatever the writer spelled: one value, one text.
    """
    if value is None or isinstance(value, str):
        return value
    return None if isinstance(value, float) and not math.isfinite(value) else _printed(value)


def text_of_json(raw: bytes) -> str | None:
    """`text_of` the value that valid JSON says; None for no text."""
    try:
        return text_of(msgspec.json.decode(raw)) if raw else None
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return text_of(json.loads(raw))  # a number beyond float64
    except (ValueError, RecursionError):  # of more digits than Python takes, or nested too deep
        return raw.decode()


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_printed, value))}]"
    if isinstance(value, dict):
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_printed(inner)}" for key, inner in value.items())
        return f"{{{', '.join(members)}}}"
    return json.dumps(value)


def plain(number: float) -> str:
    """A number as JSON without an exponent; null for what is none."""
    if not math.isfinite(number):
        return "null"
    text = f"{Decimal(repr(float(number))):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole(value: Any, limits: tuple[int, int] = INT64) -> int | None:
    """A whole number within `limits`, also one that was written as a string or with decimals that are zero."""
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and WHOLE.fullmatch(value)):
        value = int(value)
    return value if isinstance(value, int) and limits[0] <= value <= limits[1] else None


def number(value: Any) -> float:
    """A number, also one that was written as a string; NaN for all else."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_real(value: Any) -> bool:
    """Whether it says a number, or that it is none (NaN)."""
    return isinstance(value, float) or not math.isnan(number(value))


def exact_ns(text: str) -> int | None:
    """Decimal microseconds as whole nanoseconds: further digits are cut off, or rounded where there is an exponent.

    None for what is no number.
    """
    head, _, decimals = text.partition(".")
    if head.isdecimal() and decimals.isdecimal() and len(head) <= USUAL_DIGITS:
        return int(head) * 1000 + int((decimals + "00")[:3])
    if "e" not in text and "E" not in text and WHOLE.fullmatch(head) and abs(int(head)) <= SATURATED_US:
        digits = (decimals + "000")[:3]
        if digits.isdecimal():
            return int(head) * 1000 + (-int(digits) if head.startswith("-") else int(digits))
    rough = number(text)
    if abs(rough) <= SATURATED_US:
        return round(Decimal(text.strip()) * 1000)  # with an exponent, or digits that are not those of ASCII
    return None if math.isnan(rough) else round(math.copysign(SATURATED_US, rough) * 1000)


def nanoseconds(value: Any) -> int | None:
    """Microseconds as whole nanoseconds, from a number or its text; None for what is none."""
    rough = number(value)
    if abs(rough) >= FLOAT_LIMIT_US:
        return exact_ns(value.text if isinstance(value, ExactFloat) else str(value))
    return None if math.isnan(rough) else math.floor(rough) * 1000 + round((rough - math.floor(rough)) * 1000)
