"""The screen Kernels: operators, kernels, signatures and launches as one table, from the whole to the single launch."""

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
from kerneldb.tui.model import LEVELS, Level, both, equals, quoted
from kerneldb.tui.pane import Copy, Pane
from kerneldb.tui.screens.kernel_table import COLUMNS, SORTS, LaunchRows, decorated, merged, op_condition, widened
from kerneldb.tui.widgets.facts import kernel_facts
from kerneldb.tui.widgets.rows import ArrowRows, Row, Rows
from kerneldb.tui.widgets.table import Table

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

    DEFAULT_CSS = "LevelBar { height: 1; padding: 0 1; color: $text-muted; }"

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
    DEFAULT_CSS = """
    KernelsPane #kernels-side { display: none; width: 48; border-left: solid $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "app.level", "Level", tooltip="Operators, kernels, signatures, launches"),
        Binding("G", "app.level(-1)", "Level back", show=False),
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
        self.query_one(LevelBar).level = self.level
        return await (self._load_launches() if self.level == "launch" else self._load_groups(self.level))

    async def _load_groups(self, level: Level) -> str | None:
        from kerneldb.api import browsing

        selection = self.choice.selection()
        found = await self.store.read(lambda con: browsing.kernels(con, selection, level))
        if not found.num_rows:
            return await why_empty(self.store, self.choice)
        self._show(ArrowRows(decorated(found)))
        self.ready()
        more = await self.store.read(lambda con: browsing.kernels_more(con, selection, level))
        self._show(ArrowRows(decorated(merged(found, more))))
        return None

    async def _load_launches(self) -> str | None:
        key, descending = self._sorts["launch"]
        keep = self.table.row if self._shown == self.choice else None
        rows = await LaunchRows.made(self, key, descending=descending)
        if not len(rows):
            return await why_empty(self.store, self.choice, wanted="launches")
        at = rows.find(keep) if keep is not None else 0
        self._place(rows, at or 0)
        return None

    def _show(self, rows: ArrowRows) -> None:
        """Show rows of a level in the order that was wished for, with the cursor on the row that had it."""
        keep = self.table.row if self._shown == self.choice else None
        key, descending = self._sorts[self.level]
        if key in rows.table.column_names:
            rows = rows.sorted_by(key, descending=descending, then=TIES)
        keys = rows.table["key"]
        at = 0
        if keep is not None:
            import pyarrow.compute as pc

            at = max(pc.index(keys, keep.get("key")).as_py(), 0) if keep.get("key") is not None else 0
        self._place(rows, at)

    def _place(self, rows: Rows, at: int) -> None:
        table = self.table
        table.sort = self._sorts[self.level]
        table.is_marked = lambda row: self._identity(row) in self._marked
        table.columns = self._columns(rows)
        table.show(rows, at)
        self._shown = self.choice
        self.query_one(LevelBar).count = len(rows)

    def _columns(self, rows: Rows) -> list[Column]:
        """Those that are wished for and known, wide enough for what is known of the rows."""
        hidden = self._hidden.get(self.level, ())
        wanted = [column for column in COLUMNS[self.level] if column.title not in hidden]
        if isinstance(rows, LaunchRows):
            return widened(wanted, rows.widths)
        known = _known(rows)
        return [column for column in wanted if column.key in known]

    def arrived(self, rows: LaunchRows) -> None:
        """Launches that were on the way are there; they may have started later than all before."""
        if self.table.rows is rows:
            columns = self._columns(rows)
            if columns != list(self.table.columns):
                self.table.columns = columns
            self.table.arrived()

    def _identity(self, row: Row) -> Any:
        """What a row stands for, by the row itself: it may be one of the level that was shown before."""
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
            self._tell(row)

    def on_resize(self) -> None:
        """There may be room for the facts only now."""
        if (row := self.table.row) is not None:
            self._tell(row)

    def _tell(self, row: Row) -> None:
        if self.screen.has_class("-wide"):
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
            self.shell.choose(where=self.choice.narrowed(self._kernel_condition(row)).where, level="signature")
        else:
            self.action_detail()

    def _look_at_marked(self) -> None:
        """Restrict the Selection to the marked rows. A condition meets none of those that are known by sums alone."""
        if self.level == "launch":
            self.shell.narrow(self._marked_launches())
            return
        rows = self._marked_rows()
        sums = [row for row in rows if not row.get("listed", 1)]
        if len(sums) < len(rows):
            self.shell.narrow(self._marked_condition([row for row in rows if row not in sums]))
        if sums:
            said = LEFT_OUT if len(sums) < len(rows) else UNLISTED
            self.shell.notify(said.format(numbers.several(len(sums), "marked row")), title="Sums only", markup=False)

    def _marked_condition(self, rows: Sequence[Row]) -> str:
        """One of `rows`; an unknown value is no member of a list and stands apart."""
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
        rows = self.table.rows
        found = [rows.row(place) for place in range(len(rows))]
        return [row for row in found if row is not None and row["key"] in self._marked]

    def _marked_launches(self) -> str:
        """One of the marked launches."""
        traces = sorted({trace for trace, _ in self._marked})
        indexes = {name: sorted(index for trace, index in self._marked if trace == name) for name in traces}
        listed = {name: ", ".join(map(str, indexes[name])) for name in traces}
        return " OR ".join(f"{equals('trace', name)} AND launch_index IN ({listed[name]})" for name in traces)

    def _op_condition(self, row: Row) -> str:
        rows = self.table.rows
        alike = rows.table["op"].to_pylist().count(row["op"]) if isinstance(rows, ArrowRows) else 1
        return op_condition(row, alike)

    def _kernel_condition(self, row: Row) -> str:
        """By its short name where no other kernel in the list has it: that is what people read."""
        rows = self.table.rows
        if row["kernel"] is not None and isinstance(rows, ArrowRows):
            import pyarrow.compute as pc

            if pc.sum(pc.equal(rows.table["kernel"], row["kernel"])).as_py() == 1:
                return equals("short_name", row["kernel"])
        return equals("name_id", row["key"])

    # What the application asks for.

    def command(self) -> str | None:
        """The line that prints the table."""
        if self.level == "launch":
            return self.shell.command("export", "--format", "csv")
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
            Copy("s", "SQL", f"FROM kernels WHERE {condition}" if condition else "FROM kernels"),
            Copy("m", "SQL of the marked sums", self._marked_sums()),
        ]


def _known(rows: Rows) -> set[str]:
    """The columns that hold a value in any row; the others would only take room."""
    if not isinstance(rows, ArrowRows):
        return set()
    table = rows.table
    return {name for name in table.column_names if table[name].null_count < len(table)} | {"key", "kernel"}
