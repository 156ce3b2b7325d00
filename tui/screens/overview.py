"""The screen Overview: what the Selection costs, and in which kernels, categories, streams and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Label

from kerneldb.tui import numbers
from kerneldb.tui.model import equals
from kerneldb.tui.pane import Copy, Pane
from kerneldb.tui.reasons import no_traces, why_empty
from kerneldb.tui.sums import summed
from kerneldb.tui.widgets.cards import Cards
from kerneldb.tui.widgets.columns import Column, text
from kerneldb.tui.widgets.rows import ListRows, Row
from kerneldb.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from textual.app import ComposeResult

    from kerneldb.selection import Selection

TOP: Final = 10
LANES: Final = 8
BINS: Final = 32
MOST_LAUNCHES: Final = 1_000_000
"""Beyond this, busy time (it sorts all launches) is computed only when asked for."""


def _bar(share: float | None) -> str:
    return numbers.bar((share or 0.0) / 100, 10)


TOP_COLUMNS: Final = (
    text("kernel", "largest kernels", 22, stretch=True, sortable=False, hue="category", middle=True),
    Column("n", "n", 10, sortable=False),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("share_pct", "%", 5, lambda value: f"{value or 0:.1f}", sortable=False),
    Column("share", "", 10, _bar, right=False, rank=1, sortable=False, hue="category"),
    Column("cumulative", "Σ %", 5, lambda value: f"{value or 0:.0f}", rank=2, sortable=False),
    Column("mean_ns", "mean", 8, numbers.duration, rank=1, sortable=False),
)
CATEGORY_COLUMNS: Final = (
    text("category", "category", 13, stretch=True, sortable=False, hue="category"),
    Column("n", "n", 10, sortable=False, rank=1),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("share_pct", "%", 5, lambda value: f"{value or 0:.1f}", sortable=False),
    Column("share", "", 10, _bar, right=False, sortable=False, hue="category"),
)
STREAM_COLUMNS: Final = (
    text("lane", "stream", 16, stretch=True, sortable=False),
    Column("busy", "busy", 7, numbers.percent, sortable=False),
    text("sparkline", "over time", BINS, sortable=False, rank=1),
)
TRACE_COLUMNS: Final = (
    text("trace", "trace", 20, stretch=True, sortable=False),
    text("source", "source", 12, sortable=False, rank=1),
    text("device", "device", 16, sortable=False, rank=3),
    Column("launches", "launches", 10, sortable=False),
    Column("total_ns", "GPU", 8, numbers.duration, sortable=False),
    Column("window_ns", "window", 8, numbers.duration, sortable=False, rank=2),
    text("note", "", 12, sortable=False, rank=4),
)


class Box(Vertical):
    """A table that is as high as its rows, up to a limit."""

    DEFAULT_CSS = "Box { height: auto; margin-bottom: 1; } Box > Table { height: auto; }"

    def __init__(self, name: str, columns: Sequence[Column], most: int) -> None:
        super().__init__(id=f"box-{name}")
        self.table = Table(columns, id=f"overview-{name}")
        self._most = most

    def compose(self) -> ComposeResult:
        """The table."""
        yield self.table

    def fill(self, rows: list[Row], cursor: int = 0) -> None:
        """Show rows; without any, nothing."""
        self.display = bool(rows)
        self.table.styles.height = min(len(rows), self._most) + 1
        self.table.show(ListRows(rows), cursor)


class OverviewPane(Pane):
    """Cards, the largest kernels, categories, streams and traces. Enter on anything looks at that."""

    TITLE = "Overview"
    DEFAULT_CSS = """
    OverviewPane #overview-columns { height: auto; layout: vertical; }
    OverviewPane .overview--column { height: auto; width: 1fr; padding: 0 1; }
    OverviewPane #overview-hint { height: auto; color: $text-muted; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark trace", tooltip="Mark a trace; d compares the marked ones"),
        Binding("b", "busy_time", "Busy time", show=False, tooltip="Compute busy time also of very many launches"),
        Binding("g", "app.level", "Level", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._cards: dict[str, str] = {}
        self._traces: list[Row] = []
        self._ask_busy = False

    def compose_content(self) -> ComposeResult:
        """Cards on top, then two columns where there is room, else one."""
        with VerticalScroll(can_focus=False):
            yield Cards()
            with Horizontal(id="overview-columns"):
                with Vertical(classes="overview--column"):
                    yield Box("top", TOP_COLUMNS, TOP)
                    yield Box("traces", TRACE_COLUMNS, 12)
                with Vertical(classes="overview--column"):
                    yield Box("categories", CATEGORY_COLUMNS, 19)
                    yield Box("streams", STREAM_COLUMNS, LANES)
            yield Label("Asking the database …", id="overview-hint", markup=False)

    def box(self, name: str) -> Box:
        """One of top, traces, categories, streams."""
        return self.query_one(f"#box-{name}", Box)

    async def load(self) -> str | None:
        """Sums first, then what takes longer."""
        selection = self.choice.selection()
        self._traces = await self.store.rows("tui_overview_traces")
        if not self._traces:
            return no_traces(self.store.title)
        await self._load_sums(selection)
        self.ready()
        await self._load_work(selection)
        await self._load_streams(selection)
        await self._load_busy(selection)
        return None

    async def _load_sums(self, selection: Selection) -> None:
        from kerneldb.api import browsing

        level = "kernel" if self.choice.level == "launch" else self.choice.level
        groups = await self.store.read(lambda con: browsing.kernels(con, selection, level))
        categories = await self.store.read(lambda con: browsing.kernels(con, selection, "category"))
        total, sums = sum(groups["total_ns"].to_pylist()), await summed(self.store, self.choice)
        self._cards = {
            "GPU time": numbers.duration(total) if groups.num_rows else numbers.UNKNOWN,
            "launches" if groups.num_rows else "timed launches": _launches(sum(groups["n"].to_pylist()), sums),
            f"{level}s": numbers.count(groups.num_rows),
        }
        self._show_cards()
        self._show_traces()
        self.box("top").fill(_top(groups, level))
        self.box("categories").fill([_with_share(row, _largest(categories)) for row in categories.to_pylist()])
        hint = "" if groups.num_rows else (await why_empty(self.store, self.choice)).replace("\n\n", "\n")
        self.query_one("#overview-hint", Label).update(hint)

    async def _load_work(self, selection: Selection) -> None:
        (work,) = await self.store.rows("tui_overview_work", None, selection)
        if work["signatures"]:
            self._cards["signatures"] = numbers.count(work["signatures"])
        share = 100 * (work["replayed_ns"] or 0) / work["total_ns"] if work["total_ns"] else None
        self._cards["replayed"] = numbers.percent(share)
        if work["energy_mj"] is not None:
            self._cards["energy"] = numbers.energy(work["energy_mj"])
        self._launches = work["launches"] or 0
        self._show_cards()

    async def _load_streams(self, selection: Selection) -> None:
        lanes = await self.store.rows("tui_overview_streams", {"bins": BINS, "lanes": LANES}, selection)
        several = len({row["trace"] for row in lanes}) > 1
        self.box("streams").fill([_lane(row, several=several) for row in lanes])

    async def _load_busy(self, selection: Selection) -> None:
        if self._launches > MOST_LAUNCHES and not self._ask_busy:
            self._cards["busy (b asks)"] = "?"
        elif self._launches:
            (found,) = await self.store.rows("tui_overview_busy", {"names": list(self.choice.traces)}, selection)
            self._cards["wall"] = numbers.duration(found["span_ns"])
            busy = 100 * found["busy_ns"] / found["span_ns"] if found["span_ns"] else None
            self._cards["GPU busy"] = numbers.percent(busy)
        self._ask_busy = False
        self._show_cards()

    def _show_cards(self) -> None:
        self.query_one(Cards).values = dict(self._cards)

    def _show_traces(self) -> None:
        chosen, table = self.choice.traces, self.box("traces").table
        table.is_marked = lambda row: row["trace"] in self.shell.marked
        at = table.cursor
        shown = [
            row | {"note": _note(row, chosen), "launches": (row["launches"] or 0) + row["summed"]}
            for row in self._traces
        ]
        self.box("traces").fill(shown, min(at, len(shown) - 1))

    # Keys.

    def action_mark(self) -> None:
        """Mark the trace under the cursor for a comparison."""
        table = self.box("traces").table
        if not table.has_focus or table.row is None:
            table.focus()
            return
        name, marked = table.row["trace"], self.shell.marked
        self.shell.marked = tuple(one for one in marked if one != name) if name in marked else (*marked, name)
        table.action_move(1)

    def action_busy_time(self) -> None:
        """Compute what is left out for very many launches."""
        self._ask_busy = True
        self.reload()

    def on_cancel(self) -> bool:
        """Escape takes the marks off."""
        had = bool(self.shell.marked)
        self.shell.marked = ()
        self.box("traces").table.refresh()
        return had

    @on(Table.Chosen, "#overview-top")
    def _top_chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if row is not None:
            level = row["level"]
            column = {"op": "op", "kernel": "name_id", "signature": "signature_id"}[level]
            below = {"op": "kernel", "kernel": "signature", "signature": "launch"}[level]
            condition = (
                equals("short_name", row["kernel"])
                if row["unique"]
                else equals(column, row["op" if level == "op" else "key"])
            )
            self._look_at(self.choice.narrowed(condition).where, level=below)

    @on(Table.Chosen, "#overview-categories")
    def _category_chosen(self, event: Table.Chosen) -> None:
        if event.table.row is not None:
            self._look_at(self.choice.narrowed(equals("category", event.table.row["key"])).where)

    @on(Table.Chosen, "#overview-streams")
    def _stream_chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if row is not None:
            condition = f"{equals('device', row['device'])} AND {equals('stream', row['stream'])}"
            self._look_at(self.choice.narrowed(condition).where, traces=(row["trace"],))

    @on(Table.Chosen, "#overview-traces")
    def _trace_chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if row is not None:
            marked = self.shell.marked or (row["trace"],)
            self.shell.choose(traces=() if self.choice.traces == marked else marked)

    @on(Table.Moved, "#overview-top")
    def _moved(self, event: Table.Moved) -> None:
        if event.table.row is not None:
            self.shell.signature = event.table.row.get("signature_id")

    def _look_at(self, where: str, **changes: Any) -> None:
        self.shell.choose(where=where, **changes)
        self.shell.show("kernels")

    # What the application asks for.

    def command(self) -> str | None:
        """The largest kernels, as a line for the shell."""
        level = "kernel" if self.choice.level == "launch" else self.choice.level
        return self.shell.command("top", "--by", level)

    def copies(self) -> list[Copy]:
        """What the cursor is on."""
        focused = self.screen.focused
        if not isinstance(focused, Table) or focused.row is None:
            return []
        row = focused.row
        line = "\t".join(placed.column.write(placed.column.value(row)).strip() for placed in focused.placed)
        named = row.get("kernel") or row.get("trace") or row.get("category") or ""
        return [Copy("y", "row", line), Copy("n", "name", named)]


def _top(groups: pa.Table, level: str) -> list[Row]:
    names = groups["kernel"].to_pylist()
    found, cumulative = [], 0.0
    for row in groups.slice(0, TOP).to_pylist():
        cumulative += row["share_pct"] or 0.0
        shown = row["key"] if level == "op" else row["kernel"]
        unique = level == "kernel" and row["kernel"] is not None and names.count(row["kernel"]) == 1
        more = {"kernel": shown, "cumulative": cumulative, "level": level, "unique": unique}
        found.append(_with_share(row, _largest(groups)) | more)
    return found


def _launches(n: int, sums: int) -> str:
    """How many, and how many of them the other screens cannot list."""
    if not sums:
        return numbers.count(n)
    return f"{numbers.count(n)} ({'all' if sums == n else numbers.count(sums)} in sums only)"


def _with_share(row: Row, largest: float | None) -> Row:
    """The bar of a row is as long as its part of the largest one."""
    return row | {"share": 100 * (row["share_pct"] or 0.0) / largest if largest else None}


def _largest(groups: pa.Table) -> float | None:
    return groups["share_pct"][0].as_py() if groups.num_rows else None


def _lane(row: Row, *, several: bool) -> Row:
    heights = [0.0] * BINS
    for place, total in zip(row["bins"], row["totals"], strict=True):
        heights[place] = total
    name = f"{_or_unknown(row['device'])}:{_or_unknown(row['stream'])}"
    return row | {
        "lane": f"{name} {row['trace']}" if several else name,
        "busy": min(100.0, 100 * row["total_ns"] / row["span_ns"]),
        "sparkline": numbers.sparkline(heights, row["span_ns"] / BINS),
    }


def _or_unknown(value: int | None) -> str:
    return numbers.UNKNOWN if value is None else str(value)


def _note(row: Row, chosen: tuple[str, ...]) -> str:
    if row["trace"] in chosen:
        return "◂ selected"
    if row["kind"] != "timeline":
        return {"profiled": "counters", "summary": "sums only"}.get(row["kind"], str(row["kind"]))
    if not row["counted"]:
        return "not counted"
    return f"{row['summed']:,} in sums" if row["summed"] else ""
