"""Texts that many rows have: shared in memory, and there once for each row in what is written and stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb import limits

VALUE_BYTES: Final = 8
"""What a value takes at least, as `KERNELDB_MAX_RATIO` counts it."""
PATHS: Final = ("phase", "range_path", "module", "python_line")
"""Columns with what is around an event, which all events inside of it repeat."""
LONGEST_PATH: Final = 1 << 14
"""Bytes of a path. A longer one is nothing that anybody reads, nor that a program says of itself."""
LEFT_OUT: Final = ": its middle left out"
"""How the reason ends that counts such paths."""
MOST_CODED: Final = 1 << 12
LONGEST_CODED: Final = 1 << 8
"""So many texts of so many bytes each are written as codes: every part then holds all of them."""
PART_BYTES: Final = 256 << 20
"""Text of the rows that are written together: the writer holds it for each row."""


def check(table: str, frame: pl.DataFrame) -> None:
    """Raise ExceededError where the texts of the rows are so much larger than each of them once."""
    whole, values = text_bytes(frame), VALUE_BYTES * frame.height * frame.width
    most = limits.RATIO.value()
    if not most or whole <= max(limits.ALWAYS_BYTES, most * values):
        return
    once = sum(text_bytes(frame.select(pl.col(name).unique())) for name in _texts(frame))
    limits.RATIO.check(whole // (values + once), f"rows of {table} repeat texts, which become {{}} times as large")


def without_middle(name: str) -> pl.Expr:
    """The first and the last characters of a text."""
    text, part = pl.col(name), LONGEST_PATH // 16
    return pl.format("{} … {}", text.str.head(part), text.str.tail(part))


def ends(texts: pl.Series) -> pl.Series:
    """Of texts that rows will have, no more than `times.Guard` needs to see that they are too long."""
    if (texts.str.len_bytes().max() or 0) <= 2 * LONGEST_PATH:  # type: ignore[operator]
        return texts
    cut = texts.str.head(LONGEST_PATH) + texts.str.tail(LONGEST_PATH)
    return cut.zip_with(texts.str.len_bytes() > 2 * LONGEST_PATH, texts)


def coded(table: pl.DataFrame) -> pl.DataFrame:
    """`table` with its texts as codes, where they are few and short: rows that get them need no copy of the text."""
    return table.with_columns(_coded(table[name]) for name in _texts(table))


def _coded(texts: pl.Series) -> pl.Series:
    distinct = texts.drop_nulls().unique(maintain_order=True)
    if not 0 < distinct.len() <= MOST_CODED or int(distinct.str.len_bytes().max()) > LONGEST_CODED:  # type: ignore[arg-type]
        return texts
    return texts.cast(pl.Enum(distinct))


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with its codes as the texts that they stand for."""
    return frame.with_columns(pl.col(name).cast(pl.String) for name, kind in frame.schema.items() if kind == pl.Enum)


def in_parts(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows in parts that may be written: of so much text, or of a single row."""
    if frame.height <= 1 or text_bytes(frame) <= PART_BYTES:
        yield frame
        return
    half = frame.height // 2
    yield from in_parts(frame.head(half))
    yield from in_parts(frame.slice(half))


def text_bytes(frame: pl.DataFrame) -> int:
    """Bytes of the texts of all rows, and of values that are bytes. Those of `coded` are numbers, and short."""
    texts = [pl.col(name).str.len_bytes() for name in _texts(frame)]
    values = [pl.col(name).bin.size() for name, kind in frame.schema.items() if kind == pl.Binary]
    found = [one.cast(pl.Int64).sum() for one in (*texts, *values)]
    return sum(frame.select(found).row(0)) if found else 0


def _texts(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind == pl.String]
