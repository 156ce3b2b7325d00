"""The screen Kernels: operators, kernels, signatures and launches as one table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from kerneldb.tui import numbers
from kerneldb.tui.empty_messages import why_empty
from kerneldb.tui.model import LEVELS, Level, Pointed, both, equals, quoted
from kerneldb.tui.pane import CALL, Copy, Pane
from kerneldb.tui.screens.kernel_table import COLUMNS, SORTS, LaunchRows, decorated, merged, op_condition, widened
from kerneldb.tui.widgets.columns import kernel_facts
from kerneldb.tui.widgets.table import ArrowRows, Row, Rows, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from kerneldb.tui.model import Choice
    from kerneldb.tui.widgets.columns import Column

COLUMN_OF: Final[dict[str, str]] = {"kernel": "name_id", "signature": "signature_id"}
TIES: Final = (("n", "descending"), ("key", "ascending"))
"""How `kerneldb top` orders what is equal."""
UNLISTED: Final = (
    "No condition selects {}: it is asked of single launches, which these traces do not report. esc, then enter, shows "
    "one of them; y m copies SQL about all, for ^e."
)
LEFT_OUT: Final = (
    "{} left out: a condition is asked of single launches, which their traces do not report. y m, pressed before "
    "enter, copies SQL about all."
)


PLURALS: Final[dict[Level, str]] = {
    "op": "operators",
    "kernel": "kernels",
    "signature": "signatures",
    "launch": "launches",
}


class LevelBar(Static):
    """The levels with the current one marked, and how many rows it has; a click takes another one."""

    level: reactive[Level] = reactive[Level]("kernel")
    count: reactive[int | None] = reactive[int | None](None)
    """Rows of the level; None while they are asked for."""

    @dataclasses.dataclass
    class Wanted(Message):
        """Another level was clicked."""

        level: Level

    def render(self) -> Content:
        """All levels, from operators to single launches."""
        return Content(" → ").join(
            Content.styled(self._label(level), "bold reverse" if level == self.level else "") for level in LEVELS
        )

    def _label(self, level: Level) -> str:
        if level != self.level or self.count is None:
            return PLURALS[level]
        return numbers.several(
            self.count, PLURALS[level].removesuffix("es" if level == "launch" else "s"), PLURALS[level]
        )

    def on_click(self, event: events.Click) -> None:
        """The level under the mouse."""
        end = self.styles.padding.left
        for level in LEVELS:
            end += len(self._label(level)) + 3
            if event.x < end:
                self.post_message(self.Wanted(level))
                return


class KernelsPane(Pane):
    """A level of the Selection as a table, and beside it (where there is room) what the cursor is on."""

    TITLE = "Kernels"
    KEYS_NEED_CONTENT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "app.level", "Level", tooltip="Operators, kernels, signatures, launches"),
        Binding("G", "app.level(-1)", "Level back", show=False),
        CALL,
        Binding("space", "mark", "Mark", show=False, tooltip="Mark; Enter then looks at the marked ones"),
        Binding("h", "columns", "Columns", show=False),
        Binding("n", "detail", "Detail", show=False, tooltip="Everything about the kernel under the cursor"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._sorts: dict[Level, tuple[str, bool]] = dict(SORTS)
        self._hidden: dict[Level, tuple[str, ...]] = {}
        self._marked: set[Any] = set()
        self._shown: Choice | None = None

    def compose_content(self) -> ComposeResult:
        """The levels, the table, the facts."""
        yield LevelBar()
        with Horizontal():
            yield Table(id="kernels-table")
            with VerticalScroll(id="kernels-side", can_focus=False):
                yield Static(id="kernels-facts", markup=False)

    @property
    def table(self) -> Table:
        """The table."""
        return self.query_one("#kernels-table", Table)

    @property
    def level(self) -> Level:
        """What a row is."""
        return self.choice.level

    def choice_changed(self) -> None:
        """Marks are of rows that may be gone."""
        self._marked.clear()

    async def load(self) -> str | None:
        """The rows of the level."""
        from kerneldb.api import browsing

        level, selection = self.level, self.choice.selection()
        self.query_one(LevelBar).level = level
        if level == "launch":
            key, descending = self._sorts["launch"]
            keep = self._kept_row
            rows = await LaunchRows.made(self, key, descending=descending)
            if not len(rows):
                return await why_empty(self.store, self.choice, wanted="launches")
            self._place(rows, rows.find(keep) or 0)
            return None
        found = await self.store.read(browsing.kernels, selection, level)
        if not found.num_rows:
            return await why_empty(self.store, self.choice)
        self._show(ArrowRows(decorated(found)))
        self.ready()
        more = await self.store.read(browsing.kernels_more, selection, level)
        self._show(ArrowRows(decorated(merged(found, more))))
        return None

    @property
    def _kept_row(self) -> Row:
        """The row under the cursor, which stays there when the same Selection is loaded again."""
        return (self.table.row if self._shown == self.choice else None) or {}

    def _show(self, rows: ArrowRows) -> None:
        """Show rows of a level in the order of the column that was chosen, with the cursor on the row that had it."""
        import pyarrow.compute as pc

        key, descending = self._sorts[self.level]
        if key in rows.table.column_names:
            rows = rows.sorted_by(key, descending=descending, then=TIES)
        kept = self._kept_row.get("key")
        self._place(rows, 0 if kept is None else max(pc.index(rows.table["key"], kept).as_py(), 0))

    def _place(self, rows: Rows, at: int) -> None:
        table = self.table
        table.sort = self._sorts[self.level]
        table.is_marked = lambda row: self._identity(row) in self._marked
        table.columns = self._columns(rows)
        table.show(rows, at)
        self._shown = self.choice
        self.query_one(LevelBar).count = len(rows)

    def _columns(self, rows: Rows) -> list[Column]:
        """Those that are not hidden and hold a value in any row, wide enough for what is known of the rows."""
        hidden = self._hidden.get(self.level, ())
        shown = [column for column in COLUMNS[self.level] if column.title not in hidden]
        if isinstance(rows, LaunchRows):
            return widened(shown, rows.widths)
        if not isinstance(rows, ArrowRows):
            return []
        table = rows.table
        known = {name for name in table.column_names if table[name].null_count < len(table)} | {"key", "kernel"}
        return [column for column in shown if column.key in known]

    def arrived(self, rows: LaunchRows) -> None:
        """Launches that were on the way are there; they may have started later than all before."""
        if self.table.rows is rows:
            columns = self._columns(rows)
            if columns != list(self.table.columns):
                self.table.columns = columns
            self.table.arrived()

    def _identity(self, row: Row) -> Any:
        """What tells a row from others of its level, which may be the one that was shown before."""
        return (row["trace"], row["launch_index"]) if "launch_index" in row else row["key"]

    # Keys.

    def action_mark(self) -> None:
        """Mark the row, or take the mark off, and go to the next one."""
        row = self.table.row
        if row is not None:
            self._marked ^= {self._identity(row)}
            self.table.action_move(1)

    def action_detail(self) -> None:
        """Everything about the kernel under the cursor."""
        row = self.table.row
        if row is not None and row.get("signature_id"):
            self.shell.show_signature(row["signature_id"])

    def action_columns(self) -> None:
        """Choose columns."""
        from kerneldb.tui.dialogs import Choose

        level = self.level
        names = [column.title for column in COLUMNS[level]]
        shown = [name for name in names if name not in self._hidden.get(level, ())]

        def take(chosen: list[str] | None) -> None:
            if chosen:
                self._hidden[level] = tuple(name for name in names if name not in chosen)
                self._place(self.table.rows, self.table.cursor)

        self.shell.push_screen(Choose("Columns", names, shown), take)

    def on_cancel(self) -> bool:
        """Escape takes the marks off."""
        if not self._marked:
            return False
        self._marked.clear()
        self.table.refresh()
        return True

    @on(LevelBar.Wanted)
    def _level_wanted(self, event: LevelBar.Wanted) -> None:
        self.shell.choose(level=event.level)

    @on(Table.SortWanted)
    def _sort_wanted(self, event: Table.SortWanted) -> None:
        self._sorts[self.level] = (event.key, event.descending)
        rows = self.table.rows
        if isinstance(rows, ArrowRows):
            self._show(rows)
        else:
            self._shown = None
            self.reload()

    @on(Table.Moved)
    def _moved(self, event: Table.Moved) -> None:
        row = event.table.row
        if row is not None:
            if self.shell.pane is self:  # an answer may come when another screen is in front
                self.shell.signature = row.get("signature_id")
            self._show_facts()

    def on_resize(self) -> None:
        """There may be room for the facts only now."""
        self._show_facts()

    def _show_facts(self) -> None:
        if (row := self.table.row) is not None and self.screen.has_class("-wide"):
            self.query_one("#kernels-facts", Static).update(kernel_facts(row, self.level))

    @on(Table.Chosen)
    def _chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if self._marked:
            self._look_at_marked()
        elif row is None:
            return
        elif not row.get("listed", 1):  # sums alone are known of it, and they meet no condition
            self.action_detail()
        elif self.level == "op":
            self.shell.choose(where=self.choice.narrowed(self._op_condition(row)).where, level="kernel")
        elif self.level == "kernel":
            readable = row["kernel"] is not None and self._same("kernel", row) == 1
            condition = equals("short_name", row["kernel"]) if readable else equals("name_id", row["key"])
            self.shell.choose(where=self.choice.narrowed(condition).where, level="signature")
        else:
            self.action_detail()

    def _look_at_marked(self) -> None:
        """Restrict the Selection to the marked rows. A condition meets none of those that are known by sums alone."""
        if self.level == "launch":
            traces = sorted({trace for trace, _ in self._marked})
            parts = []
            for name in traces:
                indexes = ", ".join(map(str, sorted(index for trace, index in self._marked if trace == name)))
                parts.append(f"{equals('trace', name)} AND launch_index IN ({indexes})")
            self.shell.narrow(" OR ".join(parts))
            return
        rows = self._marked_rows()
        sums = [row for row in rows if not row.get("listed", 1)]
        if len(sums) < len(rows):
            self.shell.narrow(self._marked_condition([row for row in rows if row not in sums]))
        if sums:
            message = LEFT_OUT if len(sums) < len(rows) else UNLISTED
            self.shell.notify(message.format(numbers.several(len(sums), "marked row")), title="Sums only", markup=False)

    def _marked_condition(self, rows: Sequence[Row]) -> str:
        """The condition of `rows`; an unknown value is not in a list, so it is a condition of its own."""
        if self.level == "op":
            return " OR ".join(map(self._op_condition, rows))
        column, keys = COLUMN_OF[self.level], {row["key"] for row in rows}
        listed = ", ".join(sorted(quoted(key) for key in keys if key is not None))
        parts = [f"{column} IN ({listed})"] if listed else []
        return " OR ".join(parts + ([f"{column} IS NULL"] if None in keys else []))

    def _marked_sums(self) -> str:
        """The statement about marked rows that are known by sums alone; empty where there is none."""
        rows = [] if self.level == "launch" or not self._marked else self._marked_rows()
        if all(row.get("listed", 1) for row in rows):
            return ""
        condition = both("timing <> 'profiled'", self.choice.trace_condition)
        condition = both(condition, self._marked_condition(rows))
        return f"FROM kernel_rollups WHERE {condition}"

    def _marked_rows(self) -> list[Row]:
        rows = map(self.table.rows.row, range(len(self.table.rows)))
        return [row for row in rows if row is not None and row["key"] in self._marked]

    def _op_condition(self, row: Row) -> str:
        return op_condition(row, self._same("op", row))

    def _same(self, column: str, row: Row) -> int:
        """How many rows of the table have the same value in `column`."""
        rows = self.table.rows
        return rows.table[column].to_pylist().count(row[column]) if isinstance(rows, ArrowRows) else 1

    # What the application asks for.

    def pointed(self) -> Pointed | None:
        """The launch under the cursor, else the largest signature of the row."""
        return Pointed.of(self.table.row or {})

    def command(self) -> str | None:
        """The line that prints the table."""
        if self.level == "launch":
            return self.shell.command("db", "export", "--format", "csv")
        return self.shell.command("top", "--by", self.level)

    def copies(self) -> list[Copy]:
        """Row, names and SQL."""
        row = self.table.row
        if row is None:
            return []
        condition = both(self.choice.trace_condition, self.choice.where)
        return [
            Copy("y", "row", self.table.row_text),
            Copy("n", "kernel name", row.get("kernel") or ""),
            Copy("i", "signature id", row.get("signature_id") or ""),
            Copy("s", "SQL", f"FROM kernels WHERE {condition}" if condition else "FROM kernels", lines=True),
            Copy("m", "SQL of the marked sums", self._marked_sums(), lines=True),
        ]
