"""Rows told apart by several columns: which of the distinct ones each is, so that work is done once for each."""

from __future__ import annotations

from typing import Final

import polars as pl

SPARSE: Final = 8
"""Numbers up to so many times as many as there are rows are looked up in a table."""
MOST: Final = 1 << 62


def coded_rows(keys: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """The place of each row among the distinct ones, and these, in the order of the first of each; NULL equals NULL.

    Rows are compared as one number each: to compare several columns takes longer. Columns are whole numbers, truth
    values or texts.
    """
    numbers, size = _numbers(keys)
    first = numbers.arg_unique()
    places = pl.int_range(first.len(), dtype=pl.UInt32, eager=True)
    distinct = keys.select(pl.all().gather(first))
    if size > SPARSE * (keys.height + 1):
        return numbers.replace_strict(numbers.gather(first), places), distinct
    table = pl.repeat(0, size, dtype=pl.UInt32, eager=True)
    return table.scatter(numbers.gather(first), places).gather(numbers), distinct


def once_each(values: pl.Series, text: pl.Expr) -> pl.Series:
    """The texts that an expression over a column of whole numbers makes of it, each made once."""
    coded, distinct = coded_rows(values.to_frame())
    return distinct.select(text.cast(pl.String)).to_series().gather(coded)


def _numbers(keys: pl.DataFrame) -> tuple[pl.Series, int]:
    """A number for each row that only equal rows share, and below which they are; a text is hashed once."""
    texts = pl.col(pl.String).cast(pl.Categorical(pl.Categories.random())).to_physical()
    numbers, size = pl.repeat(0, keys.height, dtype=pl.Int64, eager=True), 1
    for given in keys.with_columns(texts).with_columns(pl.all().cast(pl.Int64)).iter_columns():
        column, low, high = given, given.min(), given.max()
        if not isinstance(low, int) or not isinstance(high, int) or (low == high and not given.null_count()):
            continue
        if (high - low + 2) * size >= MOST:  # more than a number holds: fewer are there than there are rows
            column, low, high = _counted(given), 0, given.len()
            numbers, size = _counted(numbers), keys.height
        several = high - low + 2
        numbers, size = numbers * several + (column - low + 1).fill_null(0), size * several
    return numbers, size


def _counted(values: pl.Series) -> pl.Series:
    """The values numbered in their order, from 0; NULL is the first one where there is any."""
    distinct = values.unique().sort()
    return values.replace_strict(distinct, pl.int_range(distinct.len(), dtype=pl.Int64, eager=True))
