"""Rows of delimited text, as all readers of CSV take them: their fields, and whether a last row is whole."""

from __future__ import annotations

import csv
from typing import Final

from kerneldb.errors import UnreadableTraceError

FIELD_LIMIT: Final = 1 << 26
NO_END: Final = "the last row has no line end: the file may be cut there"
"""A note of ingest reports."""
RETURN: Final = (
    "a carriage return within the row; editors and transfers as text do that. Copy the file again in binary mode, or "
    "print it again."
)
csv.field_size_limit(FIELD_LIMIT)


def fields(line: str) -> list[str]:
    """The fields of a row of which nothing is known yet; none where it is no CSV."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def cells(row: str, place: str) -> list[str]:
    """The fields of a row at `place` (file and line). Raises UnreadableTraceError where a carriage return is in it."""
    try:
        return next(csv.reader([row]), [])
    except csv.Error as error:
        message = f"{place} cannot be split into fields: {RETURN if chr(13) in row else error}"
        raise UnreadableTraceError(message) from error


def is_whole(row: str, width: int, separator: str = ",") -> bool:
    """Whether a row that no line end follows has all `width` fields, and closes its quotes."""
    if separator != ",":
        return row.count(separator) + 1 == width
    return row.count('"') % 2 == 0 and len(fields(row)) == width
