"""The screen SQL: an editor for a statement, and its rows in the same kind of table as everywhere."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from kerneldb.output.text import display_width
from kerneldb.output.values import python_values
from kerneldb.shell import Name
from kerneldb.tui import numbers
from kerneldb.tui.model import Choice, Pointed, both, equals
from kerneldb.tui.numbers import LONGEST_COPIED
from kerneldb.tui.pane import CALL, Copy, Pane
from kerneldb.tui.tasks import supersede
from kerneldb.tui.widgets.columns import Column, plain
from kerneldb.tui.widgets.sql_editor import OfferList, SqlEditor
from kerneldb.tui.widgets.table import ArrowRows, Table
from kerneldb.tui.widgets.where_bar import EngineMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from textual.app import ComposeResult
    from textual.worker import Worker


MOST: Final = 100_000
"""Rows that the screen takes; `e` exports all of them."""
COPIED: Final = 1_000
"""Rows that go to the clipboard, through the terminal."""
LONGEST: Final = 10_000
"""Characters of a value on the page of a row."""

FIRST: Final = """SELECT category, count(*) AS n, sum(duration_ns) AS total_ns
FROM selection
WHERE timing = 'timeline'
GROUP BY category
ORDER BY total_ns DESC"""

HINT: Final = (
    "^j runs this example, typing replaces it; ^space completes, f4 exports, f6 copies; "
    "the selected launches are `selection`"
)
OLDER: Final = "the rows below are those of the statement before"

NARROWEST, WIDEST, SAMPLE = 4, 40, 200

IDENTITIES: Final = (
    "signature_id name_id trace trace_id launch_index op category family library operation dtype kind phase module "
    "device stream process short_name name collective copy_kind call_id launch_key range_path graph_id source rank run "
    "label replay_grade"
)
"""Columns of `kernels` that identify launches; measures do not."""


class SqlPane(Pane):
    """The editor on top, the message or the rows below it. `selection` are the selected launches."""

    TITLE = "SQL"
    KEYS_NEED_CONTENT = False
    EXPORTS = "all rows of the statement that ran last"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "use", "Use as filter", tooltip="Look at the launches that the row under the cursor names"),
        Binding("i", "edit", "Edit", show=False),
        CALL,
        Binding("ctrl+j,f9", "run", "Run", show=False, key_display="^j"),
        Binding("ctrl+x", "stop", "Cancel", show=False, key_display="^x"),
        Binding("f2", "catalogue", "Catalogue", tooltip="Tables, views and macros with their columns"),
        Binding("f3", "statements", "History", tooltip="Statements that were run before"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._past: list[str] = []
        self._place = -1
        self._draft = ""
        self._ran: str | None = None
        self._failed = False
        self._worker: Worker[None] | None = None
        self._sort: tuple[str, bool] | None = None

    def compose_content(self) -> ComposeResult:
        """Editor, status, table."""
        offers = OfferList()
        yield SqlEditor(FIRST, offers)
        yield offers
        yield EngineMessage(HINT, id="sql-status")
        yield Table(everything=True, id="sql-table")

    @property
    def edit(self) -> SqlEditor:
        """The editor."""
        return self.query_one(SqlEditor)

    @property
    def table(self) -> Table:
        """The rows."""
        return self.query_one("#sql-table", Table)

    async def load(self) -> str | None:
        """Words for completion, and the rows again where there were some: they may be others now."""
        self._past = self._past or self.shell.saved.texts("sql")
        self.edit.words = await self.store.words()
        if self._ran is not None:
            await self._ask(self._ran)
        return None

    def focus_default(self) -> None:
        """The editor."""
        self.edit.focus()

    @on(SqlEditor.Run)
    def action_run(self) -> None:
        """Run the statement in the editor."""
        text = self.edit.text.strip().rstrip(";").strip()
        if not text:
            return
        self._place, self._sort = -1, None
        if not self._past or self._past[0] != text:
            self._past.insert(0, text)
            self.shell.saved.add("sql", text)
        self._worker = supersede(self, "sql", self._ask, text)

    @on(SqlEditor.Stop)
    def action_stop(self) -> None:
        """Interrupt what runs."""
        if self._worker is not None and self._worker.is_running:
            self._worker.cancel()
            self._say("cancelled" if self._ran is None else f"cancelled; {OLDER}")

    @on(SqlEditor.Past)
    def _walk(self, event: SqlEditor.Past) -> None:
        place = min(max(self._place + event.by, -1), len(self._past) - 1)
        if self._place == -1:
            self._draft = self.edit.text
        self._place = place
        self.edit.load_text(self._draft if place == -1 else self._past[place])

    async def _ask(self, text: str) -> None:
        from kerneldb.api import browsing
        from kerneldb.errors import KerneldbError
        from kerneldb.warehouse.absent import says_nothing

        self._say("running; ^x cancels")
        self._failed = True
        with self.shell.busy_while():
            try:
                found, more = await self.store.read(browsing.answer, text, self.choice.selection(), MOST)
            except KerneldbError as error:
                older = "" if self._ran is None else f"\n{OLDER}"
                self._say(f"{error}{older}", problem=True)
                return
        table, rows = self.table, _named_once(found)
        if text != self._ran:
            table.scroll_to(x=0, animate=False, force=True)
        self._ran, self._failed = text, False
        table.sort = self._sort
        table.columns = [_column(name, rows) for name in rows.column_names]
        table.show(ArrowRows(rows))
        count = numbers.several(rows.num_rows, "row")
        self._say(f"the first {count}; there are more, e exports all" if more else count)
        if says_nothing(found):
            hints = await self.store.read(browsing.hints, text, self.choice.selection())
            self._say("\n".join([count, *hints]))

    def _say(self, text: str, *, problem: bool = False) -> None:
        status = self.query_one("#sql-status", EngineMessage)
        status.set_class(problem, "-problem")
        status.say(text)

    @on(Table.SortWanted)
    def _sort_wanted(self, event: Table.SortWanted) -> None:
        rows = self.table.rows
        if isinstance(rows, ArrowRows):
            self._sort = (event.key, event.descending)
            self.table.sort = self._sort
            self.table.show(rows.sorted_by(event.key, descending=event.descending))

    @on(Table.Chosen)
    def _chosen(self, event: Table.Chosen) -> None:
        """A row as a page: cells may be longer than the screen."""
        from kerneldb.tui.dialogs import Page

        if (row := event.table.row) is not None:
            size = min(max(map(len, row), default=0), WIDEST)
            cells = [[numbers.first_of(plain(one), LONGEST) for one in cell] for cell in row.items()]
            text = "\n".join(f"{name:<{size}}  {value}" for name, value in cells)
            self.shell.push_screen(Page("Row", text))

    @on(OptionList.OptionSelected, "#sql-offers")
    def _offer_taken(self, event: OptionList.OptionSelected) -> None:
        """An entry of the list was clicked."""
        event.stop()
        self.edit.take(self.edit.list.chosen)

    def action_edit(self) -> None:
        """Back to the editor."""
        self.edit.focus()

    def action_catalogue(self) -> None:
        """Tables, views and macros: pick one to read about its columns."""
        supersede(self, "catalogue", self._catalogue)

    async def _catalogue(self) -> None:
        from kerneldb.api import browsing
        from kerneldb.tui.dialogs import Described, Find

        found = await self.store.read(browsing.catalogue)
        objects = {row["object"]: row for row in found if row["column_name"] is None}

        def read(name: str | None) -> None:
            def insert(wanted: bool | None) -> None:
                if wanted and name is not None:
                    self.edit.insert(name)
                    self.edit.focus()

            if name is not None:
                self.shell.push_screen(Described(name, _columns_of(objects[name], found)), insert)

        lines = [f"{name:<22} {row['kind']:<6} {numbers.safe(row['meaning'] or '')}" for name, row in objects.items()]
        self.shell.push_screen(Find("Catalogue", lines, list(objects)), read)

    def action_statements(self) -> None:
        """Pick one of the statements that were run before."""
        from kerneldb.tui.dialogs import Find

        def take(text: str | None) -> None:
            if text is not None:
                self.edit.load_text(text)
                self.edit.focus()

        lines = [numbers.safe(" ".join(text.split())) for text in self._past]
        self.shell.push_screen(Find("Statements", lines or ["none yet"], self._past or [self.edit.text]), take)

    def action_use(self) -> None:
        """Restrict the Selection to what the row under the cursor names."""
        row = self.table.row
        named = [equals(name, row[name]) for name in IDENTITIES.split() if row is not None and name in row]
        if not named:
            self.shell.notify(
                "No column of this row identifies launches (signature_id, op, trace, …)", severity="warning"
            )
            return
        self.shell.narrow(" AND ".join(named))
        self.shell.show("kernels")

    def on_cancel(self) -> bool:
        """Escape leaves the editor, so that the keys of the screens work."""
        if self.edit.has_focus:
            self.table.focus()
            return True
        return False

    # What the application asks for.

    def pointed(self) -> Pointed | None:
        """The launch or the signature that the row under the cursor names."""
        row = self.table.row or {}
        return Pointed.of(row, row.get("trace"))

    def command(self) -> str | None:
        """`kerneldb query`; it knows one WHERE text, so trace names become part of that."""
        text = self._statement
        where = both(self.choice.trace_condition, self.choice.where) or "true"
        return self.shell.command("query", Name(text), choice=Choice(where if "selection" in text else ""))

    @property
    def _statement(self) -> str:
        """The statement whose rows are shown; before there are any, what is written in the editor."""
        return self._ran or self.edit.text.strip().rstrip(";").strip()

    def copies(self) -> list[Copy]:
        """The statement of the rows, what is written in its place by now, and the row."""
        line = "\t".join(map(plain, (self.table.row or {}).values()))
        written = self.edit.text.strip()
        draft = "" if written.rstrip(";").strip() == self._statement else written
        sql = Copy("s", "SQL", self._statement, lines=True), Copy("d", "SQL as edited", draft, lines=True)
        return [*sql, Copy("y", "row", line), *self._rows()]

    def _rows(self) -> Iterator[Copy]:
        """The rows as a spreadsheet takes them from the clipboard: so many as go there."""
        rows = self.table.rows
        if not isinstance(rows, ArrowRows):
            return
        found = (rows.row(place) or {} for place in range(min(len(rows), COPIED)))
        lines, room = [], LONGEST_COPIED
        for cells in itertools.chain([rows.table.column_names], (map(plain, row.values()) for row in found)):
            line = "\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in cells)
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
        label = f"up to {COPIED:,} rows, with tabs" if room >= 0 else f"the first {len(lines) - 1:,} rows, with tabs"
        if lines:
            yield Copy("t", label, "\n".join(lines), lines=True)

    def nothing_to_export(self) -> str:
        """The statement failed, or runs, and no earlier one has rows."""
        none = self._failed and self._ran is None
        return "There are no rows to export: the statement failed, or is still running" if none else ""

    async def export(self, path: Path) -> int:
        """Write all rows of the statement whose rows are shown, and say so where the editor holds another one."""
        from kerneldb.api import browsing

        text = self._statement
        if self._failed or self.edit.text.strip().rstrip(";").strip() != text:
            self.shell.notify(f"Rows of the statement that ran last:\n{text}", title="Export", markup=False)
        return await self.store.read(browsing.export, text, self.choice.selection(), path)


def _columns_of(about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """What a table, view or macro is, and its columns with types and comments."""
    columns = [row for row in rows if row["object"] == about["object"] and row["column_name"] is not None]
    width = max((len(row["column_name"]) for row in columns), default=0)
    lines = (f"{row['column_name']:<{width}}  {row['type'] or ''}  {row['meaning'] or ''}".rstrip() for row in columns)
    return "\n".join([f"{about['kind']}: {about['meaning'] or ''}", "", *lines])


def _column(name: str, table: pa.Table) -> Column:
    """A column as wide as its first values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = table.schema.field(name).type
    number = bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    values = python_values(table[name].slice(0, SAMPLE))
    if number:  # also the least and the greatest, for a number that is cut is another one
        values += pc.min_max(table[name]).as_py().values()
    written = _writer(name, values)
    width = max(NARROWEST, *(display_width(numbers.safe(text)) for text in (name + " ", *map(written, values))))
    width = width if number else min(width, WIDEST)
    return Column(name, name, width, written, right=number, sortable=_sortable(table.select([name])))


def _named_once(table: pa.Table) -> pa.Table:
    """The table with `a`, `a_1`, … where names come several times, and values in place of places in a dictionary."""
    import pyarrow as pa

    names: list[str] = []
    for name in table.column_names:
        numbered = (f"{name}_{place}" for place in itertools.count(1))
        names.append(next(one for one in itertools.chain([name], numbered) if one not in names))
    table = table.rename_columns(names)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            values = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, values)
    return table


def _sortable(column: pa.Table) -> bool:
    """Whether Arrow orders the values of the one column: not those of nested types and intervals."""
    import pyarrow as pa

    if pa.types.is_nested(column.schema.types[0]):
        return False
    try:
        column.slice(0, 0).sort_by(column.column_names[0])
    except pa.ArrowException:
        return False
    return True


def _writer(name: str, values: list[Any]) -> Callable[[Any], str]:
    """As `kerneldb query` writes the column: decimals follow its largest value."""
    from kerneldb.output.text import format_column

    largest = max((value for value in values if isinstance(value, float)), key=abs, default=None)

    def write(value: Any) -> str:
        return format_column(name, [value] if largest is None else [value, largest])[0]

    return write
