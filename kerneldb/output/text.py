"""The `table` format: aligned columns for people.

Numbers stand right. Quantities (durations in `_ns`, sizes in `_bytes`, counts) carry thousands separators; identifiers
such as streams do not. The decimals of a column follow its largest value. NULL is `-`. Intervals read as
the engine writes them (3 days). Control characters are shown as escapes: names in traces are foreign text and must not
drive the terminal. Only on a terminal, and not with `wide`, long text is shortened in the middle, where kernel names
differ least.
"""

from __future__ import annotations

import datetime
import math
import re
import shutil
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, BinaryIO

from kerneldb.output.values import python_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.output import Output

GAP = "  "
NULL = "-"
SHORTEST = 16
"""Text columns are not shortened below this many characters."""

_QUANTITY = re.compile(
    r"(_ns|_us|_ms|_bytes|bytes|flops|numel)\)?$|^count|^(n|launches|ops|rows|events|calls|kernels|signatures|traces|ranges)$"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HUGE = 1e15
_TINY = 1e-3


def write(sink: BinaryIO, reader: pa.RecordBatchReader, output: Output) -> tuple[int, int]:
    """Write the first `output.limit` rows (all where None); returns (rows shown, rows there are)."""
    columns, shown, total = _collect(reader, output.limit)
    width = _terminal_width() if output.path is None and not output.wide else None
    fields = list(reader.schema)
    cells = [format_column(field.name, values) for field, values in zip(fields, columns, strict=True)]
    right = [_is_number(field.type) for field in fields]
    for line in lines([field.name for field in fields], cells, right, header=output.header, width=width):
        sink.write(line.encode("utf-8", errors="replace") + b"\n")
    return shown, total


def write_columns(sink: BinaryIO, columns: Mapping[str, Sequence[Any]], output: Output) -> tuple[int, int]:
    """As `write`, of values of Python: a first answer need not wait for Arrow to be loaded."""
    total = len(next(iter(columns.values()), ()))
    shown = {name: values[: output.limit] for name, values in columns.items()}
    width = _terminal_width() if output.path is None and not output.wide else None
    cells = [format_column(name, values) for name, values in shown.items()]
    right = [any(isinstance(value, int | float) for value in values) for values in shown.values()]
    for line in lines(list(shown), cells, right, header=output.header, width=width):
        sink.write(line.encode("utf-8", errors="replace") + b"\n")
    return len(cells[0]) if cells else 0, total


def lines(
    names: Sequence[str],
    cells: list[list[str]],
    right: Sequence[bool],
    *,
    header: bool = True,
    width: int | None = None,
) -> Iterator[str]:
    """The lines of a table, given its formatted columns and which are aligned right; `width` None never shortens."""
    heads = [escape(name) for name in names]
    sizes = [
        max([display_width(text) for text in column] + ([display_width(head)] if header else []), default=0)
        for head, column in zip(heads, cells, strict=True)
    ]
    if width is not None:
        sizes = _fit(sizes, right, width)
    if header:
        yield _line(heads, sizes, right)
        yield GAP.join("-" * size for size in sizes)
    for row in zip(*cells, strict=True):
        yield _line(row, sizes, right)


def format_column(name: str, values: Sequence[Any]) -> list[str]:
    """The text of each value of the column `name`."""
    decimals = _decimals(values)
    grouped = _QUANTITY.search(name) is not None
    return [format_value(value, grouped=grouped, decimals=decimals) for value in values]


def format_value(value: Any, *, grouped: bool = False, decimals: int | None = None) -> str:
    """`value` on one line; `grouped` adds thousands separators, `decimals` None shows six significant digits."""
    match value:
        case None | bool():
            return NULL if value is None else str(value).lower()
        case int():
            return f"{value:,}" if grouped else str(value)
        case float():
            return _float(value, decimals, grouped=grouped)
        case str():
            return escape(value)
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
        case list() | dict() | tuple():
            return _interval(*value) if hasattr(value, "nanoseconds") else _json(value)
    return f"{value:,}" if grouped and _is_whole(value) else str(value)


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """As the engine writes it: 1 year 2 months 3 days 04:05:06."""
    years, months = (int(math.copysign(part, months)) for part in divmod(abs(months), 12))
    units = (("year", years), ("month", months), ("day", days))
    parts = [f"{number} {unit}{'' if abs(number) == 1 else 's'}" for unit, number in units if number]
    seconds, fraction = divmod(abs(nanoseconds), 10**9)
    after = f".{fraction:09}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{after}"
    if nanoseconds or not parts:
        parts.append(f"-{clock}" if nanoseconds < 0 else clock)
    return " ".join(parts)


def escape(text: str) -> str:
    """`text` with control and direction-changing characters replaced by their escapes."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def shorten(text: str, size: int) -> str:
    """`text` with its middle replaced by one ellipsis so that it is at most `size` characters long."""
    if display_width(text) <= size:
        return text
    tail = (size - 1) // 2
    return text[: size - 1 - tail] + "…" + text[len(text) - tail :]


def display_width(text: str) -> int:
    """Terminal cells that `text` takes (wide East Asian characters take two, combining ones none)."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _collect(reader: pa.RecordBatchReader, limit: int | None) -> tuple[list[list[Any]], int, int]:
    columns: list[list[Any]] = [[] for _ in reader.schema]
    shown = total = 0
    for batch in reader:
        wanted = batch.num_rows if limit is None else min(batch.num_rows, limit - shown)
        if wanted > 0:
            for values, column in zip(columns, batch.slice(0, wanted).columns, strict=True):
                values.extend(python_values(column))
            shown += wanted
        total += batch.num_rows
    return columns, shown, total


def _terminal_width() -> int | None:
    """Columns of the terminal on stdout, or None where stdout is something else."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else None


def _fit(sizes: list[int], right: Sequence[bool], width: int) -> list[int]:
    """Column sizes that fit `width`, taken from the widest text columns first; numbers are never shortened."""
    sizes = list(sizes)
    excess = sum(sizes) + len(GAP) * (len(sizes) - 1) - width
    while excess > 0:
        widest = max((index for index in range(len(sizes)) if not right[index]), key=sizes.__getitem__, default=None)
        if widest is None or sizes[widest] <= SHORTEST:
            break
        others = [size for index, size in enumerate(sizes) if index != widest and not right[index]]
        floor = max([SHORTEST, *[size for size in others if size < sizes[widest]]])
        taken = min(excess, max(1, sizes[widest] - floor))
        sizes[widest] -= taken
        excess -= taken
    return sizes


def _line(texts: Sequence[str], sizes: Sequence[int], right: Sequence[bool]) -> str:
    cells = [
        _padded(shorten(text, size), size, to_right) for text, size, to_right in zip(texts, sizes, right, strict=True)
    ]
    return GAP.join(cells).rstrip()


def _padded(text: str, size: int, to_right: bool) -> str:
    space = " " * (size - display_width(text))
    return space + text if to_right else text + space


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_whole(value: object) -> bool:
    return getattr(value, "as_tuple", None) is not None and getattr(value, "is_finite", bool)()


def _decimals(values: Sequence[Any]) -> int | None:
    """Decimals for a column of floats: about four significant digits of its largest value; None for extreme scales."""
    largest = max((abs(value) for value in values if isinstance(value, float) and math.isfinite(value)), default=0.0)
    if largest == 0.0:
        return 1
    if not _TINY <= largest < _HUGE:
        return None
    return max(1, 3 - math.floor(math.log10(largest)))


def _float(value: float, decimals: int | None, *, grouped: bool) -> str:
    if not math.isfinite(value):
        return str(value)
    if decimals is None:
        return f"{value:.6g}"
    return f"{value:,.{decimals}f}" if grouped else f"{value:.{decimals}f}"


def _json(value: object) -> str:
    from kerneldb.output.records import encode

    return escape(encode(value).decode())
