"""Grids, blocks and operand shapes, short enough for a column."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kerneldb.tui.numbers import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping


def extent(row: Mapping[str, Any], what: str) -> str | None:
    """Grid or block as 132×8×1, without trailing ones; None where it is not known."""
    sizes = [row.get(f"{what}_{axis}") for axis in "xyz"]
    if sizes[0] is None:
        return None
    while len(sizes) > 1 and sizes[-1] in {1, None}:
        sizes.pop()
    return "×".join(str(size) for size in sizes)


def launch(row: Mapping[str, Any]) -> str | None:
    """Grid and block in one: 132×8 ⋅ 256."""
    grid, block = extent(row, "grid"), extent(row, "block")
    return None if grid is None else f"{grid}|{block or UNKNOWN}"


def shape(text: str | None) -> str | None:
    """Recorded input sizes, JSON as the profiler wrote it, as 8×1024 · 1024×64; inputs without sizes are left out."""
    if text is None:
        return None
    try:
        sizes = json.loads(text)
    except json.JSONDecodeError:
        return text
    return " ".join(_sizes(one) for one in sizes if isinstance(one, list) and one) or None


def _sizes(one: list[Any]) -> str:
    if one and isinstance(one[0], list):
        return "(" + " ".join(_sizes(inner) for inner in one) + ")"
    return "×".join(str(size) for size in one)
