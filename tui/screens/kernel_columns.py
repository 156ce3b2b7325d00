"""The columns of the Kernels table, per level. Ranks say what goes first where the terminal is narrow."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.tui import numbers, shapes
from kerneldb.tui.widgets.columns import Column, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kerneldb.tui.model import Level
    from kerneldb.tui.widgets.rows import Row

MILLION: Final = 1e6
LONGEST_LABEL: Final = 28
SORTS: Final[dict[Level, tuple[str, bool]]] = {
    "op": ("total_ns", True),
    "kernel": ("total_ns", True),
    "signature": ("total_ns", True),
    "launch": ("launch_index", False),
}
"""How each level is ordered at first: the column, and whether the largest comes first.

Launches stand as in their traces: mostly by start, but rocprofv3 writes those of a queue, and copies, apart."""


def _rate(value: Any) -> str:
    return numbers.amount(value) if value is None or value >= MILLION else numbers.figure(value)


def _share(value: float | None) -> str:
    return numbers.fixed(value, 1)


def _ratio(value: float | None) -> str:
    return numbers.fixed(value, 2)


def milliseconds(ns: float | None) -> str:
    """Milliseconds since the start of the trace's window: digits enough to tell launches apart."""
    return numbers.UNKNOWN if ns is None else numbers.fixed(ns / 1e6, 3)


_FIGURES: Final = (
    Column("n", "n", 9),
    Column("total_ns", "total", 9, numbers.duration),
    Column("share_pct", "%", 5, _share),
    Column("mean_ns", "mean", 9, numbers.duration, rank=1),
    Column("p50_ns", "p50", 9, numbers.duration, rank=6),
    Column("p95_ns", "p95", 9, numbers.duration, rank=5),
    Column("min_ns", "min", 9, numbers.duration, rank=9),
    Column("max_ns", "max", 9, numbers.duration, rank=9),
    Column("gbs", "GB/s", 7, _rate, rank=4),
    Column("tflops", "TFLOP/s", 7, _rate, rank=3),
    Column("energy_mj", "energy", 8, numbers.energy, rank=7),
    Column("replay_ratio", "replay×", 7, _ratio, rank=6),
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
        text("trace", "trace", 14, rank=3, sortable=False),
    ),
}


def needed(row: Row) -> dict[str, int]:
    """The cells that columns of launches need for values which are longer than usual: starts, and found operators."""
    label = row["operator"] if row["operator"] != row["op"] else None
    return {"start_ns": len(milliseconds(row["offset_ns"])), "op": min(len(label or ""), LONGEST_LABEL)}


def widened(columns: Sequence[Column], widths: Mapping[str, int]) -> list[Column]:
    """`columns`, with as many cells as are needed by their keys."""
    wider = [(column, widths.get(column.key, 0)) for column in columns]
    return [dataclasses.replace(column, width=width) if width > column.width else column for column, width in wider]


def decorated(table: pa.Table) -> pa.Table:
    """`table` with grid, block and shape as texts that fit a column."""
    import pyarrow as pa

    names = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    if "launch" in table.column_names:
        return table
    sizes = table.select(names).to_pylist()
    launches = pa.array([shapes.launch(row) for row in sizes], pa.string())
    short = pa.array([shapes.shape(text) for text in table["shape"].to_pylist()], pa.string())
    place = table.column_names.index("shape")
    return table.set_column(place, "shape", short).append_column("launch", launches)
