"""Where tables take their rows from: from memory, or page by page from the database."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Protocol

from kerneldb.output.values import python_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

PAGE: Final = 64
PAGES: Final = 64
"""Pages that are kept; with 64 rows each, far more than any screen shows."""

Row = dict[str, Any]


class Rows(Protocol):
    """What a table draws from. `row` is None for one that is not there yet; the table asks again when it arrived."""

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
        self._page = functools.lru_cache(PAGES)(self._read_page)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def row(self, index: int) -> Row | None:
        """The row at `index`."""
        return self._page(index // PAGE)[index % PAGE]

    def _read_page(self, number: int) -> list[Row]:
        table = self.table.slice(number * PAGE, PAGE)
        columns = [python_values(column) for column in table.columns]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]

    def sorted_by(self, key: str, *, descending: bool, then: Sequence[tuple[str, str]] = ()) -> ArrowRows:
        """The same rows in another order, unknown values last.

        `then` orders equal ones: (column, 'ascending' or 'descending') several times.
        """
        order = "descending" if descending else "ascending"
        return ArrowRows(self.table.sort_by([(key, order), *(one for one in then if one[0] != key)]))


class PagedRows:
    """Rows that are asked for page by page: `ask` gets the number of a page, whose rows come by `put`."""

    def __init__(self, count: int, ask: Callable[[int], object]) -> None:
        self._count = count
        self._ask = ask
        self._pages: dict[int, Sequence[Row | None]] = {}
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
        """The rows of the page `number`. The page that came first goes where there are too many."""
        self._asked.discard(number)
        self._pages[number] = page
        if len(self._pages) > PAGES:
            del self._pages[next(iter(self._pages))]

    def forget(self, number: int) -> None:
        """The page will not come; ask again when it is drawn next."""
        self._asked.discard(number)
