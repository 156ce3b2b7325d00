"""Cells of tables: values as people read them."""

from __future__ import annotations

import math
from typing import Any, Final

from kerneldb.output import units
from kerneldb.report.model import Column, Table

MARK: Final = " *"
WRITERS: Final = {"count": units.count, "ns": units.duration, "percent": units.percent, "rate": units.amount}


def shown(column: Column, value: Any) -> str:
    """`value` of a column as text."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return units.UNKNOWN
    if is_over(column, value):
        return f"{value:,.1f} %{MARK}"
    if column.kind in WRITERS:
        return WRITERS[column.kind](float(value))
    return f"{value:,.4g}" if column.kind == "number" else str(value)


def is_over(column: Column, value: Any) -> bool:
    """Whether a value is larger than it should be able to be, as it is printed."""
    return bool(column.over) and value is not None and round(value, 1) > 100  # noqa: PLR2004 (percent)


def notes(table: Table) -> list[str]:
    """What stands below a table: why marked values are over 100 %."""
    marked = [
        column.over for column in table.columns if any(is_over(column, row.get(column.name)) for row in table.rows)
    ]
    return [f"* over 100 %: {reason}" for reason in dict.fromkeys(marked)]


def is_number(column: Column) -> bool:
    """Whether the column stands on the right."""
    return column.kind == "number" or column.kind in WRITERS
