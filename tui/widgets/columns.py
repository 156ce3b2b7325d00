"""Columns of tables: how wide, how their values are written, which of them fit; and the same facts as lines of text."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from textual.content import Content

from kerneldb.tui import numbers
from kerneldb.tui.widgets.gantt import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kerneldb.tui.model import Level


GAP: Final = 1
ESSENTIAL: Final = 0
ROOM: Final = 36
"""Cells that a column which shortens in the middle has before columns of a rank of `EXTRA` and more are shown."""
EXTRA: Final = 6
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
    while not everything and kept:
        last = max(range(len(kept)), key=lambda index: (kept[index].rank, index))
        short = sum(max(ROOM - one.width, 0) for one in kept if one.stretch and one.middle)
        room = width - (short if kept[last].rank >= EXTRA else 0)
        if _needed(kept) <= room or kept[last].rank == ESSENTIAL:
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


Fact = tuple[str, str | None]

_ALWAYS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("category", "category", str),
    ("library", "library", str),
    ("dtype", "dtype", str),
    ("operator", "op", str),
    ("shape", "shape", str),
)
_SUMS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("launches", "n", numbers.count),
    ("total", "total_ns", numbers.duration),
    ("share", "share_pct", numbers.percent),
    ("mean", "mean_ns", numbers.duration),
    ("p50", "p50_ns", numbers.duration),
    ("p95", "p95_ns", numbers.duration),
    ("min", "min_ns", numbers.duration),
    ("max", "max_ns", numbers.duration),
)
_LAUNCH: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("trace", "trace", str),
    ("index", "launch_index", numbers.count),
    ("start", "offset_ns", lambda value: clock(value, 1)),
    ("start_ns", "start_ns", str),
    ("duration", "duration_ns", numbers.duration),
    ("device", "device", str),
    ("stream", "stream", str),
    ("phase", "phase", str),
    ("module", "module", str),
    ("registers", "registers", numbers.count),
    ("shared", "shared_bytes", numbers.size),
    ("occupancy", "occupancy", lambda value: numbers.percent(100 * value)),
    ("copied", "bytes", numbers.size),
)
_WORK: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("TFLOP/s", "tflops", lambda value: f"{value:,.2f}"),
    ("GB/s", "gbs", lambda value: f"{value:,.1f}"),
    ("energy", "energy_mj", numbers.energy),
    ("replay", "replay_ratio", numbers.ratio),
    ("signature", "signature_id", str),
)


def kernel_facts(row: Mapping[str, Any], level: Level) -> Content:
    """The facts of a row of the Kernels table; what is not known is left out."""
    row = {**row, "op": row.get("operator") or row.get("op")}
    title = row.get("key" if level == "op" else "kernel") or row.get("name") or numbers.UNKNOWN
    chosen = (*_ALWAYS, *(_LAUNCH if level == "launch" else _SUMS), *_WORK)
    if level == "op":
        chosen = (*_SUMS, *_WORK[:-1])
    elif level == "kernel":
        chosen = (*_ALWAYS[:3], *_SUMS, *_WORK[:-1])
    facts: list[Fact] = [(name, write(row[key])) for name, key, write in chosen if row.get(key) is not None]
    if level in {"signature", "launch"}:
        facts[5:5] = [(what, size) for what in ("grid", "block") if (size := extent(row, what)) is not None]
    return lines([(title, None), ("", None), *facts])


def lines(facts: Iterable[Fact]) -> Content:
    """A line per fact: names aligned, a name without a value in bold."""
    known = list(facts)
    size = max((len(name) for name, value in known if value is not None), default=0)
    parts = []
    for name, value in known:
        if value is None:
            parts.append(Content.styled(numbers.safe(name), "bold"))
        else:
            label = Content.styled(name.ljust(size) + "  ", "dim")
            parts.append(Content.assemble(label, numbers.safe(value)))
    return Content("\n").join(parts)
