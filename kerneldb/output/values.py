"""Values of Arrow columns as Python has them, or as texts where it cannot hold them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

CYCLE_DAYS: Final = 146_097
"""Days of 400 years."""
DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of the fraction of a second, by Arrow's unit."""
DAY: Final = {unit: 86_400 * 10**digits for unit, digits in DIGITS.items()}


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch."""
    columns = [python_values(column) for column in batch.columns]
    if not columns:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; texts for what Python cannot hold: infinite times, far years, nanoseconds, 24:00."""
    import pyarrow as pa

    if pa.types.is_time64(column.type):
        return [("24:00:00" if value.value == DAY[value.type.unit] else _held(value)) for value in column]
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except (OverflowError, TypeError, ValueError):
        return [_held(value) for value in column]


def _held(value: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return value.as_py(maps_as_pydicts="lossy")
    except (OverflowError, TypeError, ValueError):
        pass
    kind = value.type
    if pa.types.is_map(kind):
        return {str(_held(entry["key"])): _held(entry["value"]) for entry in value.values}
    if pa.types.is_struct(kind):
        return {name: _held(inner) for name, inner in value.items()}
    if pa.types.is_nested(kind):
        return [_held(inner) for inner in value.values]
    return _moment(value) if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else str(value.value)


def _moment(value: pa.Scalar) -> str:
    """A date or time of any year as DuckDB writes it (https://duckdb.org/docs/stable/sql/data_types/timestamp)."""
    import pyarrow as pa

    is_date, number = pa.types.is_date32(value.type), value.value
    if abs(number) == (2**31 if is_date else 2**63) - 1:
        return "infinity" if number > 0 else "-infinity"
    if is_date:
        return _date(number)
    digits = DIGITS[getattr(value.type, "unit", "ms")]
    seconds, fraction = divmod(number, 10**digits)
    days, second = divmod(seconds, 86_400)
    after = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
    zone = "+00" if getattr(value.type, "tz", None) else ""
    return f"{_date(days)} {datetime.datetime.min + datetime.timedelta(seconds=second):%H:%M:%S}{after}{zone}"


def _date(days: int) -> str:
    """The day so many days after 1970-01-01. The calendar repeats itself every 400 years."""
    cycles, rest = divmod(days, CYCLE_DAYS)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=rest)
    year = day.year + 400 * cycles
    return f"{year:04}-{day:%m-%d}" if year > 0 else f"{1 - year:04}-{day:%m-%d} (BC)"
