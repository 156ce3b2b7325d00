"""Values as people read them: times with a fitting unit, counts with separators, what is unknown as a dash."""

from __future__ import annotations

import math
from typing import Any, Final

from kerneldb.report.model import Column

UNKNOWN: Final = "–"
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
        return f"{value:.1f} %"
    return f"{value:,.4g}" if column.kind == "number" else str(value)


def duration(ns: float) -> str:
    """A time in nanoseconds with three or four digits and the unit that fits."""
    for size, unit in UNITS:
        if abs(ns) >= size:
            return f"{ns / size:,.2f} {unit}"
    return f"{ns:,.0f} ns"


def is_number(column: Column) -> bool:
    """Whether the column stands on the right."""
    return column.kind in {"count", "ns", "percent", "number"}
