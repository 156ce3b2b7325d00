"""The table that all screens draw with, and where it takes its rows from: memory, or the database page by page."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kerneldb.output.values import python_values
from kerneldb.tui import numbers, theme
from kerneldb.tui.widgets.columns import GAP, Column, Placed, fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from textual.app import ComposeResult


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


@dataclasses.dataclass
class TableMessage(Message):
    """A message of `table`."""

    table: Table

    @property
    def control(self) -> Table:
        """The table."""
        return self.table


class Table(ScrollView, can_focus=True):
    """Rows and columns with a cursor.

    Give it `columns` and, by `show`, rows; `sort` (column and whether descending) and `is_marked` are only drawn. It
    posts `Moved`, `Chosen` (Enter or a second click) and `SortWanted`; sorting is up to who owns the rows.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--cursor",
        "table--marked",
        "table--dim",
        "table--sorted",
    }
    DEFAULT_CSS = """
    Table { height: 1fr; background: $background; scrollbar-size: 1 1; scrollbar-gutter: stable; overflow-x: hidden; }
    Table.-everything { overflow-x: auto; }
    Table .table--header { text-style: bold; color: $foreground; background: $panel; }
    Table .table--sorted { text-style: bold; color: $text-accent; background: $panel; }
    Table .table--cursor { background: $block-cursor-blurred-background; }
    Table:focus .table--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    Table .table--marked { color: $text-warning; text-style: bold; }
    Table .table--dim { text-style: dim; }
    Table:ansi .table--cursor { text-style: underline; }
    Table:ansi:focus .table--cursor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("home", "edge(-1)", "First", show=False),
        Binding("end", "edge(1)", "Last", show=False),
        Binding("left", "sideways(-8)", "Left", show=False),
        Binding("right", "sideways(8)", "Right", show=False),
        Binding("enter", "choose", "Open"),
        Binding("s", "sort(True)", "Sort", tooltip="Sort by the next column, largest first"),
        Binding("S", "sort(False)", "Sort up", show=False, tooltip="Sort by the next column, smallest first"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)

    class Moved(TableMessage):
        """The cursor is on another row."""

    class Chosen(TableMessage):
        """The row under the cursor is to be opened."""

    @dataclasses.dataclass
    class SortWanted(TableMessage):
        """The rows are to be ordered by the column `key`."""

        key: str
        descending: bool

    def __init__(self, columns: Sequence[Column] = (), *, everything: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._columns = tuple(columns)
        self._everything = everything
        self.set_class(everything, "-everything")
        self.placed: list[Placed] = []
        """The columns that fit, with their places."""
        self.rows: Rows = ListRows()
        self.sort: tuple[str, bool] | None = None
        self.is_marked: Callable[[Row], bool] = lambda _row: False

    # What owners use.

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, also those that do not fit."""
        return self._columns

    @columns.setter
    def columns(self, columns: Sequence[Column]) -> None:
        before = self.check_action("sort", ())
        self._columns = tuple(columns)
        self._place()
        if self.check_action("sort", ()) != before:
            self.refresh_bindings()

    def show(self, rows: Rows, cursor: int = 0) -> None:
        """Draw from `rows`, with the cursor on the row `cursor`."""
        filled = bool(len(self.rows)) != bool(len(rows))
        self.rows = rows
        if filled:
            self.refresh_bindings()
        self._place()
        self.set_reactive(Table.cursor, -1)
        self.cursor = cursor

    @property
    def row(self) -> Row | None:
        """The row under the cursor; None where there is none, or not yet."""
        return self.rows.row(self.cursor) if 0 <= self.cursor < len(self.rows) else None

    @property
    def row_text(self) -> str:
        """The row under the cursor as it is written, columns separated by tabs; empty where there is none."""
        row = self.row or {}
        return "\t".join(placed.column.write(placed.column.value(row)).strip() for placed in self.placed if row)

    def arrived(self) -> None:
        """Rows that were on the way are there."""
        self.refresh()
        self.post_message(self.Moved(self))

    # Drawing.

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self._place()
        self._reveal()

    def _place(self) -> None:
        self.placed = fitted(self._columns, self.scrollable_content_region.width, everything=self._everything)
        last = self.placed[-1] if self.placed else None
        width = last.start + last.width if last else 0
        self.virtual_size = Size(width, len(self.rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The header, or one row."""
        offset_x, offset_y = self.scroll_offset
        width = self.scrollable_content_region.width
        if not self.placed:
            return Strip.blank(width, self.rich_style)
        if y == 0:
            style = self.get_component_rich_style("table--header")
            return Strip(self._header(style)).crop_extend(offset_x, offset_x + width, style)
        index = offset_y + y - 1
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        style = self.rich_style
        if index == self.cursor:
            style += self.get_component_rich_style("table--cursor")
        return Strip(self._cells(index, style)).crop_extend(offset_x, offset_x + width, style)

    def _header(self, style: Style) -> list[Segment]:
        segments = []
        for placed in self.placed:
            column, title, shown = placed.column, placed.column.title, style
            if self.sort is not None and self.sort[0] == column.key:
                title = ("▾" if self.sort[1] else "▴") + title
                shown = self.get_component_rich_style("table--sorted")
            text = numbers.fit(title, placed.width, right=column.right)
            segments += [Segment(text, shown), Segment(" " * GAP, style)]
        return segments

    def _cells(self, index: int, style: Style) -> list[Segment]:
        row = self.rows.row(index)
        if row is None:
            return [Segment("…", style + self.get_component_rich_style("table--dim", partial=True))]
        marked = self.is_marked(row)
        segments = []
        for placed in self.placed:
            column = placed.column
            value = column.value(row)
            shown = style + self._cell_style(column, row, value, marked=marked, here=index == self.cursor)
            text = numbers.fit(column.write(value), placed.width, right=column.right, middle=column.middle)
            segments += [Segment(text, shown), Segment(" " * GAP, style)]
        return segments

    def _cell_style(self, column: Column, row: Row, value: Any, *, marked: bool, here: bool) -> Style:
        if here and self.has_focus:
            return Style.null()
        if marked:
            return self.get_component_rich_style("table--marked", partial=True)
        if value is None:
            return self.get_component_rich_style("table--dim", partial=True)
        if column.hue is not None:
            return theme.category_style(self.app, row.get(column.hue))
        return Style.null()

    # Moving.

    def validate_cursor(self, cursor: int) -> int:
        """A row that there is."""
        return min(max(cursor, 0), max(len(self.rows) - 1, 0))

    def watch_cursor(self) -> None:
        """Keep the cursor on the screen, and post that it moved."""
        self._reveal()
        self.refresh()
        if len(self.rows):
            self.post_message(self.Moved(self))

    def _reveal(self) -> None:
        height = max(self.scrollable_content_region.height - 1, 1)
        top = round(self.scroll_offset.y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self.cursor += by

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens."""
        self.cursor += pages * max(self.scrollable_content_region.height - 2, 1)

    def action_edge(self, which: int) -> None:
        """Move to the first or the last row."""
        self.cursor = 0 if which < 0 else len(self.rows) - 1

    def action_sideways(self, by: int) -> None:
        """Scroll to columns that do not fit."""
        self.scroll_to(x=self.scroll_offset.x + by, animate=False, force=True)

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if len(self.rows):
            self.post_message(self.Chosen(self))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Opening is offered where there is a row, sorting where a column can be sorted by."""
        if action == "choose":
            return bool(len(self.rows))
        return action != "sort" or any(column.sortable for column in self._columns)

    def action_sort(self, descending: bool) -> None:
        """Sort by the next column; the other way, by the same one."""
        keys = [placed.column.key for placed in self.placed if placed.column.sortable]
        if not keys:
            return
        key = self.sort[0] if self.sort is not None and self.sort[0] in keys else keys[-1]
        if self.sort != (key, not descending):
            key = keys[(keys.index(key) + 1) % len(keys)]
        self.post_message(self.SortWanted(self, key, descending=descending))

    def on_click(self, event: events.Click) -> None:
        """A row gets the cursor, or is opened where it has it; a column head sorts."""
        x = event.x + self.scroll_offset.x
        index = round(self.scroll_offset.y) + event.y - 1
        if event.y == 0:
            for placed in self.placed:
                if placed.start <= x < placed.start + placed.width + GAP and placed.column.sortable:
                    key = placed.column.key
                    self.post_message(self.SortWanted(self, key, descending=self.sort != (key, True)))
        elif index == self.cursor and event.chain > 1:
            self.action_choose()
        elif index < len(self.rows):
            self.cursor = index


class Box(Vertical):
    """A table that is as high as its rows, up to `most` where that is given."""

    DEFAULT_CSS = "Box { height: auto; margin-bottom: 1; } Box > Table { height: auto; }"

    def __init__(self, name: str, columns: Sequence[Column], most: int | None = None) -> None:
        super().__init__(id=f"box-{name}")
        self.table = Table(columns, id=f"overview-{name}")
        self._most = most

    def compose(self) -> ComposeResult:
        """The table."""
        yield self.table

    def fill(self, rows: list[Row], cursor: int = 0) -> None:
        """Show rows; without any, nothing."""
        self.display = bool(rows)
        self.table.styles.height = len(rows[: self._most]) + 1
        self.table.show(ListRows(rows), cursor)
