"""Where tables take their rows from: from memory, or page by page from the database."""

from __future__ import annotations

import collections
import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

PAGE: Final = 64
PAGES: Final = 64
"""Pages that are kept; with 64 rows each, far more than any screen shows."""

CYCLE_DAYS: Final = 146_097
"""Days of 400 years."""
DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of the fraction of a second, by Arrow's unit."""

Row = dict[str, Any]
Page = TypeVar("Page")


class Rows(Protocol):
    """What a table draws from. `row` may say None: not there yet, the table asks again when told so."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def row(self, index: int) -> Row | None:
        """The row at `index`."""
        ...


class ListRows:
    """Rows in memory."""

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row | None:
        """The row at `index`."""
        return dict(self._rows[index])


class ArrowRows:
    """Rows of an Arrow table, turned into Python values page by page."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._pages: _Pages[list[Row]] = _Pages()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def row(self, index: int) -> Row | None:
        """The row at `index`."""
        number, place = divmod(index, PAGE)
        page = self._pages.get(number)
        if page is None:
            page = _rows(self.table.slice(number * PAGE, PAGE))
            self._pages.put(number, page)
        return page[place]

    def sorted_by(self, key: str, *, descending: bool, then: str | Sequence[tuple[str, str]] = ()) -> ArrowRows:
        """The same rows in another order, unknown values last.

        `then` orders equal ones: a column, or (column, 'ascending' or 'descending') several times.
        """
        further = [(then, "ascending")] if isinstance(then, str) else then
        order = "descending" if descending else "ascending"
        return ArrowRows(self.table.sort_by([(key, order), *(one for one in further if one[0] != key)]))


def _rows(table: pa.Table) -> list[Row]:
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; texts for what Python cannot hold: infinite times, years after 9999, nanoseconds."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except (OverflowError, ValueError):
        return [_held(value) for value in column]


def _held(value: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return value.as_py(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):
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


class PagedRows:
    """Rows that `ask` is asked for, a page at a time: it gets the number of the page, and somebody answers by `put`."""

    def __init__(self, count: int, ask: Callable[[int], None]) -> None:
        self._count = count
        self._ask = ask
        self._pages: _Pages[Sequence[Row | None]] = _Pages()
        self._asked: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def row(self, index: int) -> Row | None:
        """The row at `index`, or None while its page is on the way."""
        number, place = divmod(index, PAGE)
        page = self._pages.get(number)
        if page is None:
            if number not in self._asked:
                self._asked.add(number)
                self._ask(number)
            return None
        return page[place] if place < len(page) else None

    def put(self, number: int, page: Sequence[Row | None]) -> None:
        """The rows of the page `number`."""
        self._asked.discard(number)
        self._pages.put(number, page)

    def forget(self, number: int) -> None:
        """The page will not come; ask again when it is drawn next."""
        self._asked.discard(number)


class _Pages(Generic[Page]):
    """The pages that were used last."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[int, Page] = collections.OrderedDict()

    def get(self, number: int) -> Page | None:
        """The page `number`, where it is kept."""
        if number in self._kept:
            self._kept.move_to_end(number)
        return self._kept.get(number)

    def put(self, number: int, page: Page) -> None:
        """Keep a page; the one that was not used for longest goes."""
        self._kept[number] = page
        if len(self._kept) > PAGES:
            self._kept.popitem(last=False)
