"""Values as people read them: times with a fitting unit, counts with separators, what is unknown as a dash."""

from __future__ import annotations

import math
from typing import Any, Final

from kerneldb.report.model import Column, Table

UNKNOWN: Final = "–"
PREFIXES: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MARK: Final = " *"
UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def shown(column: Column, value: Any) -> str:
    """`value` of a column as text."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if column.kind == "ns":
        return duration(float(value))
    if column.kind == "count":
        return f"{value:,.0f}"
    if column.kind == "percent":
        return f"{value:.1f} %{MARK if is_over(column, value) else ''}"
    if column.kind == "rate":
        return prefixed(float(value))
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


def duration(ns: float) -> str:
    """A time in nanoseconds with three or four digits and the unit that fits."""
    for size, unit in UNITS:
        if abs(ns) >= size:
            return f"{ns / size:,.2f} {unit}"
    return f"{ns:,.0f} ns"


def prefixed(value: float) -> str:
    """A rate with three or four digits and the decimal prefix that fits: 466.4 T."""
    for size, prefix in PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}"
    return f"{value:.4g}"


def is_number(column: Column) -> bool:
    """Whether the column stands on the right."""
    return column.kind in {"count", "ns", "percent", "number", "rate"}
