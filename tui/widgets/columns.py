"""Columns of tables: how wide, how their values are written (grids, blocks and shapes too), and which of them fit."""

from __future__ import annotations

import dataclasses
import json
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


def extent(row: Mapping[str, Any], what: str) -> str | None:
    """Grid or block as 132×8×1, without trailing ones; None where it is not known."""
    sizes = [row.get(f"{what}_{axis}") for axis in "xyz"]
    if sizes[0] is None:
        return None
    while len(sizes) > 1 and sizes[-1] in {1, None}:
        sizes.pop()
    return "×".join(str(size) for size in sizes)


def grid_and_block(row: Mapping[str, Any]) -> str | None:
    """Grid and block in one: 132×8 ⋅ 256."""
    grid, block = extent(row, "grid"), extent(row, "block")
    return None if grid is None else f"{grid}|{block or numbers.UNKNOWN}"


def short_shape(text: str | None) -> str | None:
    """Recorded input sizes, JSON as the profiler wrote it, as 8×1024 · 1024×64; inputs without sizes are left out."""
    if text is None:
        return None
    try:
        sizes = json.loads(text)
    except json.JSONDecodeError:
        return text

    def written(one: list[Any]) -> str:
        if one and isinstance(one[0], list):
            return "(" + " ".join(map(written, one)) + ")"
        return "×".join(map(str, one))

    return " ".join(written(one) for one in sizes if isinstance(one, list) and one) or None
