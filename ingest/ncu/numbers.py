"""Numbers as ncu prints them: in the locale of the user, beside others that are always in the C locale.

The command line of ncu formats counts and percentages by LC_NUMERIC, in CSV too (8192 reads `8,192`, `8.192`, `8 192`
or `8'192`), with no or two decimals; hardware metrics of the raw page stand in the C locale with exactly six decimals
(tried with ncu 2020.3 to 2024.2). A file therefore has one style, which its numbers show together or not at all.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

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


@dataclasses.dataclass(frozen=True, slots=True)
class Style:
    """What separates groups of digits ('' where nothing does) and decimals."""

    group: str = ","
    decimal: str = "."

    def read(self, text: str, exponent: int = 0) -> tuple[float, float] | None:
        """Value and half of the last printed digit, both times 10**exponent; None where `text` is no number."""
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
    """What the numbers of a file tell about its style, each with an example."""

    decimals: dict[str, str] = dataclasses.field(default_factory=dict)
    groups: dict[str, str] = dataclasses.field(default_factory=dict)
    open: dict[str, str] = dataclasses.field(default_factory=dict)

    def see(self, text: str) -> None:
        """Take one number of the file into account; what is no number tells nothing."""
        if text.isdigit() or SIX_DECIMALS.fullmatch(text) or not NUMBER.fullmatch(text):
            return
        marks = SEPARATOR.findall(text.translate(UNIFIED))
        head, last = text[: text.rfind(_last(text))].lstrip("-"), marks[-1]
        tail = len(text) - text.rfind(_last(text)) - 1
        if last in "' ":
            self.groups.setdefault(last, text)
        elif len(set(marks)) > 1:
            self.decimals.setdefault(last, text)
            self.groups.setdefault(marks[0], text)
        elif len(marks) > 1:
            self.groups.setdefault(last, text)
        elif tail != GROUP_DIGITS or len(head) > GROUP_DIGITS or head == "0":
            self.decimals.setdefault(last, text)
        else:
            self.open.setdefault(last, text)

    def style(self) -> Style:
        """The one style that fits all numbers seen. Raises ValueError, saying which numbers leave it open."""
        self._agree()
        decimal = next(iter(self.decimals), None)
        group = next(iter(self.groups), None)
        if decimal is None and group is None:
            return self._without_evidence()
        decimal = decimal or OTHER[group or ","]
        return Style(group or OTHER[decimal], decimal)

    def _agree(self) -> None:
        both = set(self.decimals) & set(self.groups)
        if len(self.decimals) > 1 or len(self.groups) > 1 or both:
            seen = " and ".join(f"`{text}`" for text in [*self.decimals.values(), *self.groups.values()])
            message = f"the numbers contradict each other: {seen}"
            raise ValueError(message)

    def _without_evidence(self) -> Style:
        if "." in self.open:
            text = self.open["."]
            whole, part = text.split(".")
            message = f"`{text}` may be {whole}{part} or {whole} and {part}/1000, and no other number tells"
            raise ValueError(message)
        return Style()


def _last(text: str) -> str:
    marks: list[str] = SEPARATOR.findall(text)
    return marks[-1]


def _scientific(text: str, exponent: int) -> tuple[float, float]:
    mantissa, power = re.split("[eE]", text)
    decimals = len(mantissa.partition(".")[2])
    return float(f"{mantissa}e{int(power) + exponent}"), float(f"5e{int(power) + exponent - decimals - 1}")
