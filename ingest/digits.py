"""Whole numbers as texts print them. Python refuses to read thousands of digits, which damage may leave in a cell."""

from __future__ import annotations

from typing import Final

READ: Final = 40
"""So many digits are read: twice those of 64 bits."""
BEYOND: Final = 10**READ
"""Stands for a longer number, or less than zero for one below zero: no column holds either, so it is left empty."""


def whole(text: object) -> int | None:
    """The whole number that a text prints, perhaps with blanks around it; None where it prints none."""
    plain = "" if text is None else str(text).strip()
    digits = plain.removeprefix("-")
    if not digits.isdecimal():
        return None
    size = int(digits) if len(digits) <= READ else BEYOND
    return -size if plain.startswith("-") else size
