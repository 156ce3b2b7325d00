"""Columns of tables: how wide, how their values are written, and which of them fit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.tui import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GAP: Final = 1
ESSENTIAL: Final = 0
LEAST: Final = 8
"""Cells that a column which stretches keeps where there is too little room for all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column that shows the field `key` of rows.

    `width` is in cells; a `stretch` column takes what is left, at least `width`. Columns of a higher `rank` go first
    where the terminal is too narrow; rank 0 always stays. `hue` is a field whose category colours the text. A `middle`
    column shortens long texts in the middle: kernel names differ at their ends. `shown` is a field to show in place of
    the one that rows are sorted by.
    """

    key: str
    title: str
    width: int
    write: Callable[[Any], str] = numbers.count
    right: bool = True
    stretch: bool = False
    rank: int = ESSENTIAL
    sortable: bool = True
    hue: str | None = None
    middle: bool = False
    shown: str | None = None

    def value(self, row: Mapping[str, Any]) -> Any:
        """What the column shows of a row."""
        return row.get(self.shown or self.key)


def text(key: str, title: str, width: int, **options: Any) -> Column:
    """A column of text, on the left."""
    return Column(key, title, width, plain, right=False, **options)


def plain(value: Any) -> str:
    """A value as it is."""
    from kerneldb.output.text import format_value

    return format_value(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A column with the cells it takes, from `start`."""

    column: Column
    start: int
    width: int


def fitted(columns: Sequence[Column], width: int, *, everything: bool = False) -> list[Placed]:
    """The columns that fit `width` cells, with their places. With `everything` none is left out: the table scrolls.

    Where not even the essential ones fit, those that stretch become narrower first.
    """
    kept = list(columns)
    while not everything and _needed(kept) > width:
        last = max(range(len(kept)), key=lambda index: (kept[index].rank, index), default=None)
        if last is None or kept[last].rank == ESSENTIAL:
            break
        del kept[last]
    spare = width - _needed(kept)
    spare = max(spare, 0) if everything else spare
    stretching = [column for column in kept if column.stretch]
    placed, start = [], 0
    for column in kept:
        more = 0
        if column.stretch:
            more = spare // len(stretching) + (spare % len(stretching) if column is stretching[0] else 0)
        taken = max(column.width + more, min(column.width, LEAST))
        placed.append(Placed(column, start, taken))
        start += taken + GAP
    return placed


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * max(0, len(columns) - 1)
