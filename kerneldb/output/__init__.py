"""Writers of results: one entry point, `write`, and a module per family of formats.

`table` is for people and is the only format that limits rows or shortens text. All others carry every row and every
digit, are stable for programs, and stream: memory holds one batch of rows at a time. stdout gets nothing but the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, get_args

from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    import pyarrow as pa


Format = Literal["table", "csv", "json", "ndjson", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = get_args(Format)
BINARY_FORMATS: frozenset[Format] = frozenset({"parquet", "arrow"})
TABLE_ROWS = 100
"""Rows that `table` shows when no limit is given."""

_SUFFIXES: dict[str, Format] = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """How and where a result is written.

    `path` None means stdout. Of the rest, `table` alone knows `limit` (rows at most; None: all), `wide` (long text and
    all columns on a terminal, too), `exact_names` (headers and values as a query can name them) and `totals` (columns
    whose sum over all rows makes a last line).
    """

    format: Format = "table"
    path: Path | None = None
    header: bool = True
    wide: bool = False
    limit: int | None = None
    exact_names: bool = False
    totals: tuple[str, ...] = ()
    safe_cells: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """How many rows were written, out of how many, and the columns for which a terminal had no room."""

    shown: int
    total: int
    left_out: Sequence[str] = ()


def format_of(path: Path) -> Format | None:
    """The format that the name of `path` asks for, or None where it says nothing."""
    return _SUFFIXES.get(path.suffix.lower())


def write(reader: pa.RecordBatchReader, output: Output) -> Written:
    """Write all rows of `reader`. A file appears under its name only when complete.

    Raises UsageError where a binary format would go to a terminal, OSError where the file cannot be written.
    """
    if output.format in BINARY_FORMATS and output.path is None and is_terminal():
        raise UsageError(f"{output.format} is a binary format: write it to a file with -o FILE, or pipe it")
    from kerneldb.output import records, tables

    with opened(output.path, drawn=output.format == "table") as sink:
        if output.format == "table":
            return Written(*tables.write(sink, reader, output))
        if output.format == "parquet":
            rows = records.write_parquet(sink, reader)
        elif output.format == "arrow":
            rows = records.write_arrow(sink, reader)
        else:
            options = {"header": output.header, "safe_cells": output.safe_cells}
            rows = records.write(sink, reader, output.format, **options)
        return Written(rows, rows)


def write_columns(columns: Mapping[str, Sequence[Any]], output: Output) -> Written:
    """Write columns of values as the format `table`, as `write` does."""
    from kerneldb.output import tables

    with opened(output.path, drawn=True) as sink:
        return Written(*tables.write_columns(sink, list(columns.items()), output))


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


@contextlib.contextmanager
def opened(path: Path | None, *, drawn: bool = False) -> Iterator[BinaryIO]:
    """A binary stream for `path` (None: stdout, where a terminal shows control characters as escapes).

    `drawn` says that the caller made the lines harmless, and coloured them.

    A file is there as a whole or not at all, and errors name it: see `files.written`.
    """
    if path is None:
        from kerneldb.output import terminal

        sys.stdout.flush()
        sink = terminal.drawn() if drawn else terminal.stdout()
        yield sink
        sink.flush()
    else:
        from kerneldb.files import written

        with written(path) as stream:
            yield stream


__all__ = [
    "BINARY_FORMATS",
    "FORMATS",
    "TABLE_ROWS",
    "Format",
    "Output",
    "Written",
    "format_of",
    "is_terminal",
    "opened",
    "write",
    "write_columns",
]
