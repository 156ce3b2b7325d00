"""Cells of a slice as values: numbers in the units of the warehouse, throttle reasons, identities."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kerneldb.ingest.power import fields
from kerneldb.ingest.power.layout import Column
from kerneldb.ingest.power.lines import Slice

MEASURED: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(fields.QUERY, pl.Float64),
    "throttle": pl.String,
}
IDENTITIES = ("index", "uuid", "bus_id", "name")


def frame_of(part: Slice) -> pl.DataFrame:
    """The cells as text, one column per field; of a field that is printed twice, the first one."""
    names = part.layout.names
    first = {name: names.index(name) for name in names}
    columns = list(zip(*part.rows, strict=True))
    return pl.DataFrame({name: pl.Series(columns[place], dtype=pl.String) for name, place in first.items()})


def number(column: Column) -> pl.Expr:
    """The numbers of a column in the unit of the warehouse; NULL where the cell has none.

    A unit in the cell counts before that of the header. P-states count as their numbers.
    """
    cell = pl.col(column.field).str.strip_prefix("P") if column.field == "pstate" else pl.col(column.field)
    printed = cell.str.extract(fields.NUMBER, 2)
    factors = {name: factor for name, (_, factor) in fields.UNITS.items()}
    otherwise = factors.get(column.unit or "", 1.0)
    factor = printed.replace_strict(factors, default=otherwise, return_dtype=pl.Float64)
    return cell.str.extract(fields.NUMBER, 1).cast(pl.Float64, strict=False) * factor


def unit_of(column: Column, cells: pl.Series) -> str | None:
    """The unit in which `number` gives the values of a column."""
    inside = cells.str.extract(fields.NUMBER, 2).drop_nulls()
    printed = next((unit for unit in inside.unique(maintain_order=True) if unit), None) or column.unit
    if printed is None:
        return None
    stored: str = fields.UNITS.get(printed, (printed, 1.0))[0]
    return stored


def chosen(part: Slice) -> dict[str, list[Column]]:
    """Column of `power_samples` → the columns of the log that it is read from, the best first."""
    table = fields.DMON if part.layout.style == "dmon" else fields.QUERY
    printed = {column.field: column for column in part.layout.columns}
    found = {target: [printed[name] for name in names if name in printed] for target, names in table.items()}
    return {target: columns for target, columns in found.items() if columns}


def measured(part: Slice) -> dict[str, pl.Expr]:
    """The columns MEASURED of `power_samples`, as expressions over `frame_of`; NULL where the slice lacks one."""
    wanted = chosen(part)
    masks = wanted.pop("throttle", [])
    absent = {target: pl.lit(None, dtype=kind) for target, kind in MEASURED.items()}
    values = {target: pl.coalesce([number(column) for column in columns]) for target, columns in wanted.items()}
    throttle = _throttle(part, masks)
    return {**absent, **values, **({} if throttle is None else {"throttle": throttle})}


def _throttle(part: Slice, masks: list[Column]) -> pl.Expr | None:
    if masks:
        return pl.col(masks[0].field).map_elements(fields.reasons, return_dtype=pl.String)
    single = {name: reason for name in part.layout.names if (reason := fields.single_reason(name)) is not None}
    if not single:
        return None
    active = [pl.when(pl.col(name) == "Active").then(pl.lit(reason)) for name, reason in single.items()]
    known = pl.any_horizontal(*(pl.col(name).is_in(["Active", "Not Active"]) for name in single))
    return pl.when(known).then(pl.concat_str(*active, separator="; ", ignore_nulls=True))


def others(part: Slice) -> Iterator[Column]:
    """Columns that `power_samples` does not have: they go to `samples`, as far as they hold numbers."""
    taken = {columns[0].field for columns in chosen(part).values()}
    times = {fields.TIME, fields.DATE_COLUMN, fields.TIME_COLUMN}
    seen: set[str] = set()
    for column in part.layout.columns:
        aside = column.field in taken | times | set(fields.IDENTITY) or fields.single_reason(column.field) is not None
        if not aside and column.field not in seen:
            seen.add(column.field)
            yield column


def identities(part: Slice) -> dict[str, pl.Expr]:
    """What tells GPUs apart: `index`, `uuid`, `bus_id`, `name`; NULL where the log does not say."""
    found = {what: name for name, what in reversed(fields.IDENTITY.items()) if name in part.layout.names}
    return {what: _identity(what, found.get(what)) for what in IDENTITIES}


def _identity(what: str, name: str | None) -> pl.Expr:
    cell = pl.lit(None, dtype=pl.String) if name is None else pl.col(name)
    if what == "index":
        return cell.cast(pl.Int32, strict=False)
    return pl.when(~cell.str.contains(fields.ABSENT)).then(cell)
