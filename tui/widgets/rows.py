"""Where tables take their rows from: from memory, or page by page from the database."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from kerneldb.output.values import python_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

PAGE: Final = 64
PAGES: Final = 64
"""Pages that are kept; with 64 rows each, far more than any screen shows."""

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
