"""A table over any number of rows: only what is on the screen is asked for, formatted and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kerneldb.tui import numbers, theme
from kerneldb.tui.widgets.columns import GAP, Column, Placed, fitted
from kerneldb.tui.widgets.rows import ListRows, Row, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END: Final = 1 << 62
LOADING: Final = "…"


class Table(ScrollView, can_focus=True):
    """Rows and columns with a cursor.

    Give it `columns` and, by `show`, rows; `sort` and `marks` are what it was told they are. It says `Moved`, `Chosen`
    (Enter or a second click) and `SortWanted`; sorting is up to who owns the rows.
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

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: Table, index: int) -> None:
            super().__init__()
            self.table = table
            self.index = index

        @property
        def control(self) -> Table:
            """The table."""
            return self.table

    class Chosen(Moved):
        """The row under the cursor is to be opened."""

    class SortWanted(Message):
        """The rows are to be ordered by the column `key`."""

        def __init__(self, table: Table, key: str, *, descending: bool) -> None:
            super().__init__()
            self.table = table
            self.key = key
            self.descending = descending

        @property
        def control(self) -> Table:
            """The table."""
            return self.table

    def __init__(self, columns: Sequence[Column] = (), *, everything: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._columns = tuple(columns)
        self._everything = everything
        self.set_class(everything, "-everything")
        self._placed: list[Placed] = []
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
        self.cursor = min(max(cursor, 0), max(len(rows) - 1, 0))

    @property
    def placed(self) -> list[Placed]:
        """The columns that fit, with their places."""
        return self._placed

    @property
    def row(self) -> Row | None:
        """The row under the cursor; None where there is none, or not yet."""
        return self.rows.row(self.cursor) if 0 <= self.cursor < len(self.rows) else None

    def arrived(self) -> None:
        """Rows that were on the way are there."""
        self.refresh()
        self.post_message(self.Moved(self, self.cursor))

    # Drawing.

    def on_resize(self) -> None:
        """Fit the columns anew."""
        self._place()
        self._reveal()

    def _place(self) -> None:
        self._placed = fitted(self._columns, self.scrollable_content_region.width, everything=self._everything)
        last = self._placed[-1] if self._placed else None
        width = last.start + last.width if last else 0
        self.virtual_size = Size(width, len(self.rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The header, or one row."""
        offset_x, offset_y = self.scroll_offset
        width = self.scrollable_content_region.width
        if not self._placed:
            return Strip.blank(width, self.rich_style)
        if y == 0:
            style = self.get_component_rich_style("table--header")
            return Strip(self._header(style)).crop_extend(offset_x, offset_x + width, style)
        index = offset_y + y - 1
        if index >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        style = self._row_style(index)
        return Strip(self._cells(index, style)).crop_extend(offset_x, offset_x + width, style)

    def _header(self, style: Style) -> list[Segment]:
        segments = []
        for placed in self._placed:
            column, title = placed.column, placed.column.title
            sorted_here = self.sort is not None and self.sort[0] == column.key
            if self.sort is not None and sorted_here:
                title = ("▾" if self.sort[1] else "▴") + title
            shown = self.get_component_rich_style("table--sorted") if sorted_here else style
            segments += [
                Segment(numbers.fit(title, placed.width, right=column.right), shown),
                Segment(" " * GAP, style),
            ]
        return segments

    def _row_style(self, index: int) -> Style:
        if index == self.cursor:
            return self.rich_style + self.get_component_rich_style("table--cursor")
        return self.rich_style

    def _cells(self, index: int, style: Style) -> list[Segment]:
        row = self.rows.row(index)
        if row is None:
            return [Segment(LOADING, style + self.get_component_rich_style("table--dim", partial=True))]
        marked = self.is_marked(row)
        segments = []
        for placed in self._placed:
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
        """Keep the cursor on the screen, and tell."""
        self._reveal()
        self.refresh()
        if len(self.rows):
            self.post_message(self.Moved(self, self.cursor))

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
            self.post_message(self.Chosen(self, self.cursor))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Opening is offered where there is a row, sorting where a column can be sorted by."""
        if action == "choose":
            return bool(len(self.rows))
        return action != "sort" or any(column.sortable for column in self._columns)

    def action_sort(self, descending: bool) -> None:
        """Sort by the next column; the other way, by the same one."""
        keys = [placed.column.key for placed in self._placed if placed.column.sortable]
        if not keys:
            return
        key = self.sort[0] if self.sort is not None and self.sort[0] in keys else keys[-1]
        same_other_way = self.sort is not None and self.sort[0] == key and self.sort[1] != descending
        wanted = key if same_other_way else keys[(keys.index(key) + 1) % len(keys)]
        self.post_message(self.SortWanted(self, wanted, descending=descending))

    def on_click(self, event: events.Click) -> None:
        """A row gets the cursor, or is opened where it has it; a column head sorts."""
        x, y = event.x + self.scroll_offset.x, event.y
        if y == 0:
            self._head_clicked(x)
            return
        index = round(self.scroll_offset.y) + y - 1
        if index >= len(self.rows):
            return
        if index == self.cursor and event.chain > 1:
            self.action_choose()
        else:
            self.cursor = index

    def _head_clicked(self, x: int) -> None:
        for placed in self._placed:
            if placed.start <= x < placed.start + placed.width + GAP and placed.column.sortable:
                key = placed.column.key
                descending = not (self.sort is not None and self.sort[0] == key and self.sort[1])
                self.post_message(self.SortWanted(self, key, descending=descending))

    def region_of(self, index: int) -> Region:
        """Where the row `index` is drawn, for tests and hints."""
        return Region(0, index - round(self.scroll_offset.y) + 1, self.size.width, 1)
