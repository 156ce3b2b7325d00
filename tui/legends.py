"""Lines that say what colours are: one square for each, in front of all that has it, and facts behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from kerneldb.tui import theme
from kerneldb.tui.numbers import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kerneldb.tui.theme import Hue

    Ink = Callable[[Hue], str]
    """The colour of a hue, as the styles of Content name it."""
    Entry = tuple[Hue, str]

LEAST: Final = 30
"""Cells that the colours get before all facts are told."""
MORE: Final = "+{} more  "


def legend(entries: Iterable[Entry], facts: Sequence[str], room: int, ink: Ink | None, before: str = "") -> Content:
    """Entries as far as there is room for, most important first, and the longest of the `facts` that leaves them some.

    Without `ink` there are no squares, as all would look alike: the entries have letters then (see `category`).
    """
    left = room - len(before)
    told = next((one for one in facts if left - len(one) >= LEAST), facts[-1])
    found = _fitting(_by_hue(entries), left - len(told), ink)
    return Content.assemble(before, *found, Content.styled(told, "dim"))


def category(name: str | None, ink: Ink | None) -> str:
    """How a category is called: without colours its letter comes first."""
    letter = "" if ink is not None else f"{theme.category_letter(name)} "
    return letter + safe(name or "unknown")


def _by_hue(entries: Iterable[Entry]) -> list[list[Entry]]:
    groups: dict[Hue, list[Entry]] = {}
    for hue, text in entries:
        groups.setdefault(hue, []).append((hue, text))
    return list(groups.values())


def _fitting(groups: list[list[Entry]], room: int, ink: Ink | None) -> list[Content]:
    """As many entries as there is room for, and how many more there are."""
    parts: list[Content] = []
    left = sum(map(len, groups))
    for group in groups:
        for place, (hue, text) in enumerate(group):
            mark = "■ " if ink is not None and place == 0 else ""
            end = ", " if place + 1 < len(group) else "  "
            room -= len(mark) + len(text) + len(end)
            if room < (0 if left == 1 else len(MORE)):
                return [*parts, Content(MORE.format(left))]
            left -= 1
            if ink is not None and mark:
                parts.append(Content.styled(mark, ink(hue)))
            parts.append(Content(text + end))
    return parts
