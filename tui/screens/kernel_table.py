"""Columns and rows of the Kernels table, per level. Ranks say what goes first where the terminal is narrow."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kerneldb.tui import numbers
from kerneldb.tui.model import equals
from kerneldb.tui.widgets.columns import Column, grid_and_block, short_shape, text
from kerneldb.tui.widgets.table import PAGE, PagedRows, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kerneldb.api.browsing import LaunchKeys
    from kerneldb.tui.model import Level
    from kerneldb.tui.screens.kernels import KernelsPane

MILLION: Final = 1e6
LONGEST_LABEL: Final = 28
SORTS: Final[dict[Level, tuple[str, bool]]] = {
    "op": ("total_ns", True),
    "kernel": ("total_ns", True),
    "signature": ("total_ns", True),
    "launch": ("launch_index", False),
}
"""How each level is ordered at first: the column, and whether the largest comes first.

Launches are ordered as in their traces: mostly by start, but rocprofv3 writes those of a queue, and copies, apart."""


def _rate(value: Any) -> str:
    return numbers.amount(value) if value is None or value >= MILLION else numbers.figure(value)


def milliseconds(ns: float | None) -> str:
    """Milliseconds since the start of the trace's window: with enough digits to distinguish launches."""
    return numbers.UNKNOWN if ns is None else numbers.fixed(ns / 1e6, 3)


_FIGURES: Final = (
    Column("n", "n", 9),
    Column("total_ns", "total", 9, numbers.duration),
    Column("share_pct", "%", 5, partial(numbers.fixed, digits=1)),
    Column("mean_ns", "mean", 9, numbers.duration, rank=1),
    Column("p50_ns", "p50", 9, numbers.duration, rank=6),
    Column("p95_ns", "p95", 9, numbers.duration, rank=5),
    Column("min_ns", "min", 9, numbers.duration, rank=9),
    Column("max_ns", "max", 9, numbers.duration, rank=9),
    Column("gbs", "GB/s", 7, _rate, rank=4),
    Column("tflops", "TFLOP/s", 7, _rate, rank=3),
    Column("energy_mj", "energy", 8, numbers.energy, rank=7),
    Column("replay_ratio", "replay×", 7, partial(numbers.fixed, digits=2), rank=6),
)
_CATEGORY: Final = text("category", "category", 13, rank=2, hue="category")

COLUMNS: Final[dict[Level, tuple[Column, ...]]] = {
    "op": (text("key", "operator", 24, stretch=True), *_FIGURES),
    "kernel": (
        text("kernel", "kernel", 24, stretch=True, middle=True, hue="category"),
        _CATEGORY,
        text("library", "library", 12, rank=8),
        text("dtype", "dtype", 6, rank=5),
        *_FIGURES,
    ),
    "signature": (
        text("kernel", "kernel", 22, stretch=True, middle=True, hue="category"),
        text("launch", "grid|block", 16, rank=2, sortable=False),
        text("shape", "shape", 20, rank=5, sortable=False),
        text("dtype", "dtype", 6, rank=7),
        *_FIGURES,
    ),
    "launch": (
        Column("start_ns", "start ms", 11, milliseconds, shown="offset_ns"),
        Column("duration_ns", "duration", 9, numbers.duration),
        text("kernel", "kernel", 22, stretch=True, middle=True, sortable=False, hue="category"),
        text("launch", "grid|block", 16, rank=2, sortable=False),
        text("op", "operator", 16, rank=3, sortable=False, middle=True, shown="operator"),
        text("shape", "shape", 18, rank=6, sortable=False),
        text("phase", "phase", 10, rank=7, sortable=False),
        Column("device", "dev", 3, rank=4, sortable=False),
        Column("stream", "stream", 6, rank=4, sortable=False),
        Column("tflops", "TFLOP/s", 7, _rate, rank=5),
        Column("gbs", "GB/s", 7, _rate, rank=6),
        text("trace", "trace", 14, rank=3, middle=True, sortable=False),
    ),
}


def widened(columns: Sequence[Column], widths: Mapping[str, int]) -> list[Column]:
    """`columns`, with as many cells as are needed by their keys."""
    wider = [(column, widths.get(column.key, 0)) for column in columns]
    return [dataclasses.replace(column, width=width) if width > column.width else column for column, width in wider]


def decorated(table: pa.Table) -> pa.Table:
    """`table` with grid, block and shape as texts that fit a column."""
    import pyarrow as pa

    if "launch" in table.column_names:
        return table
    sizes = table.select([f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]).to_pylist()
    launches = pa.array([grid_and_block(row) for row in sizes], pa.string())
    short = pa.array([short_shape(text) for text in table["shape"].to_pylist()], pa.string())
    place = table.column_names.index("shape")
    return table.set_column(place, "shape", short).append_column("launch", launches)


def merged(table: pa.Table, more: pa.Table) -> pa.Table:
    """`table` with the columns of `more`, found by `key`; unknown where `more` has no such key."""
    import pyarrow.compute as pc

    places = pc.index_in(table["key"], value_set=more["key"].combine_chunks())
    for name in ("p50_ns", "p95_ns", "tflops", "gbs", "energy_mj", "replay_ratio"):
        table = table.append_column(name, more[name].take(places))
    return table


def op_condition(row: Row, alike: int) -> str:
    """What the launches of an operator's row meet; `alike` rows, with it, are of this operator.

    One that was inferred for launches recorded without one is listed apart.
    """
    condition = equals("op", row["op"])
    return condition if alike == 1 else f"{condition} AND {equals('inferred_by', row['inferred_by'])}"


class LaunchRows(PagedRows):
    """The launches of the Selection in an order. Their keys are in memory (8 bytes each), pages come when drawn.

    `widths` are the cells that columns need for the rows known by now: starts are long where a clock is damaged.
    """

    def __init__(self, pane: KernelsPane, keys: LaunchKeys) -> None:
        super().__init__(len(keys), lambda number: pane.run_worker(self._load(number), group="pages"))
        self._pane = pane
        self._keys = keys
        self.widths: dict[str, int] = {}

    @classmethod
    async def made(cls, pane: KernelsPane, order: str, *, descending: bool) -> LaunchRows:
        """The launches in the order of a column, with the first page."""
        from kerneldb.api import browsing

        selection = pane.choice.selection()
        by = None if order == "launch_index" else order
        keys = await pane.store.read(browsing.launch_keys, selection, by, descending=descending)
        rows = cls(pane, keys)
        if len(keys):
            await rows.fetch(0)
        return rows

    def find(self, row: Row) -> int | None:
        """The place of a launch that was shown; None where it is not among these."""
        return self._keys.find(row["trace_id"], row["launch_index"]) if "launch_index" in row else None

    async def _load(self, number: int) -> None:
        from kerneldb.errors import KerneldbError

        try:
            await self.fetch(number)
        except KerneldbError:
            self.forget(number)
        else:
            self._pane.arrived(self)

    async def fetch(self, number: int) -> None:
        """Ask for a page."""
        from kerneldb.api import browsing

        found = await self._pane.store.read(browsing.launch_page, self._keys, number * PAGE, PAGE)
        for row in filter(None, found):
            row |= {"launch": grid_and_block(row), "shape": short_shape(row["shape"])}
            label = row["operator"] if row["operator"] != row["op"] else None
            needed = {"start_ns": len(milliseconds(row["offset_ns"])), "op": min(len(label or ""), LONGEST_LABEL)}
            self.widths |= {key: max(width, self.widths.get(key, 0)) for key, width in needed.items()}
        self.put(number, found)
