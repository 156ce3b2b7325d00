"""Figures side by side: a value in bold, and under it what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from kerneldb.tui.numbers import fit

if TYPE_CHECKING:
    from collections.abc import Mapping

GAP: Final = 2


class Cards(Static):
    """Values by their names, in the order given; as many in a row as fit."""

    DEFAULT_CSS = "Cards { height: auto; padding: 0 1; margin-bottom: 1; text-wrap: nowrap; }"

    values: reactive[Mapping[str, str]] = reactive(dict, layout=True)

    def render(self) -> Content:
        """Two lines per row of cards."""
        entries = [(value, name, max(len(value), len(name)) + GAP) for name, value in self.values.items()]
        rows: list[Content] = []
        for shown in _wrapped(entries, self.size.width or 78):
            rows.append(Content.styled("".join(fit(value, width) for value, _, width in shown), "bold"))
            rows.append(Content.styled("".join(fit(name, width) for _, name, width in shown), "dim"))
        return Content("\n").join(rows)


def _wrapped(entries: list[tuple[str, str, int]], room: int) -> list[list[tuple[str, str, int]]]:
    rows: list[list[tuple[str, str, int]]] = [[]]
    taken = 0
    for entry in entries:
        if rows[-1] and taken + entry[2] - GAP > room:
            rows.append([])
            taken = 0
        rows[-1].append(entry)
        taken += entry[2]
    return rows
