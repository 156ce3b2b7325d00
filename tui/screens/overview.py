"""The screen Overview: what the Selection costs, and in which kernels, categories, streams and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Label, Static

from kerneldb.tui import numbers
from kerneldb.tui.empty_messages import no_traces, why_empty
from kerneldb.tui.model import equals
from kerneldb.tui.pane import Copy, Pane
from kerneldb.tui.screens.kernel_table import op_condition
from kerneldb.tui.widgets.columns import Column, text
from kerneldb.tui.widgets.table import Box, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from textual.app import ComposeResult

    from kerneldb.selection import Selection
    from kerneldb.tui.widgets.rows import Row

TOP: Final = 10
LANES: Final = 8
BINS: Final = 32
BELOW: Final = {"op": "kernel", "kernel": "signature", "signature": "launch"}
"""The level that a row of each level is looked at with."""
MOST_LAUNCHES: Final = 1_000_000
"""Beyond this, busy time (it sorts all launches) is computed only when asked for."""


def _bar(share: float | None) -> str:
    return numbers.bar((share or 0.0) / 100, 10)


def _share(share: float | None) -> str:
    return numbers.fixed(share, 1)


TOP_COLUMNS: Final = (
    text("kernel", "largest kernels", 22, stretch=True, sortable=False, hue="category", middle=True),
    Column("n", "n", 10, sortable=False),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("share_pct", "%", 5, _share, sortable=False),
    Column("share", "", 10, _bar, right=False, rank=1, sortable=False, hue="category"),
    Column("cumulative", "Σ %", 5, lambda value: numbers.fixed(value, 0), rank=2, sortable=False),
    Column("mean_ns", "mean", 8, numbers.duration, rank=1, sortable=False),
)
CATEGORY_COLUMNS: Final = (
    text("category", "category", 13, stretch=True, sortable=False, hue="category"),
    Column("n", "n", 10, sortable=False, rank=1),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("share_pct", "%", 5, _share, sortable=False),
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


class Cards(Static):
    """Values by their names, in the order given; as many in a row as fit."""

    DEFAULT_CSS = "Cards { height: auto; padding: 0 1; margin-bottom: 1; text-wrap: nowrap; }"

    values: reactive[Mapping[str, str]] = reactive(dict, layout=True)

    def render(self) -> Content:
        """Two lines per row of cards."""
        lines: list[Content] = []
        values = names = ""
        for name, value in self.values.items():
            width = max(len(value), len(name))
            if names and len(names) + width > (self.size.width or 78):
                lines += [Content.styled(values, "bold"), Content.styled(names, "dim")]
                values = names = ""
            values += numbers.fit(value, width + 2)
            names += numbers.fit(name, width + 2)
        return Content("\n").join([*lines, Content.styled(values, "bold"), Content.styled(names, "dim")])


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
                with Vertical(classes="overview--column", id="overview-side"):
                    yield Box("categories", CATEGORY_COLUMNS, 19)
                    yield Box("streams", STREAM_COLUMNS, LANES)
            yield Label("Asking the database …", id="overview-hint", markup=False)

    def box(self, name: str) -> Box:
        """One of top, traces, categories, streams."""
        return self.query_one(f"#box-{name}", Box)

    async def load(self) -> str | None:
        """Sums first, then what takes longer."""
        selection = self.choice.selection()
        from kerneldb.api import browsing

        self._traces = await self.store.read(lambda con: browsing.traces(con, selection.traces))
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
        sums = await self.store.summed(self.choice)
        self._cards = {
            "GPU time": numbers.duration(_total(groups)),
            "counted launches" if self._some_left_out else "launches": _launches(sum(groups["n"].to_pylist()), sums),
            f"{level}s": numbers.count(groups.num_rows),
        }
        self._show_cards()
        self._show_traces()
        self.box("top").fill(_top(groups, level))
        self.box("categories").fill([_with_share(row, _largest(categories)) for row in categories.to_pylist()])
        hint = "" if groups.num_rows else (await why_empty(self.store, self.choice)).replace("\n\n", "\n")
        self.query_one("#overview-hint", Label).update(hint)

    @property
    def _some_left_out(self) -> bool:
        """Whether traces that are looked at have launches that enter no sums; the status line counts all."""
        looked_at = [row for row in self._traces if not self.choice.traces or row["trace"] in self.choice.traces]
        return any(row["launches"] and (row["kind"] != "timeline" or not row["is_primary"]) for row in looked_at)

    async def _load_work(self, selection: Selection) -> None:
        (work,) = await self.store.rows("tui_overview_work", None, selection)
        if signatures := await self._signatures(selection, work["signatures"]):
            self._cards["signatures"] = numbers.count(signatures)
        share = 100 * (work["replayed_ns"] or 0) / work["total_ns"] if work["total_ns"] else None
        self._cards["replayed"] = numbers.percent(share)
        if work["energy_mj"] is not None:
            self._cards["energy"] = numbers.energy(work["energy_mj"])
        self._launches = work["launches"] or 0
        self._show_cards()

    async def _signatures(self, selection: Selection, of_launches: int) -> int:
        """How many, with those that are known by sums alone; a condition meets none of these."""
        if self.choice.where.strip():
            return of_launches
        from kerneldb.api import browsing

        signatures = await self.store.read(lambda con: browsing.kernels(con, selection, "signature"))
        return int(signatures.num_rows)

    async def _load_streams(self, selection: Selection) -> None:
        lanes = await self.store.rows("tui_overview_streams", {"bins": BINS, "lanes": LANES}, selection)
        several = len({row["trace"] for row in lanes}) > 1
        self.box("streams").fill([_lane(row, several=several) for row in lanes])

    async def _load_busy(self, selection: Selection) -> None:
        if self._launches > MOST_LAUNCHES and not self._ask_busy:
            self._cards["busy (b asks)"] = "?"
        elif self._launches:
            (found,) = await self.store.rows("tui_overview_busy", None, selection)
            # Each device of each trace has a time of its own.
            self._cards["wall" if found["devices"] == 1 else "wall, summed"] = numbers.duration(found["span_ns"])
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
            self._look_into(row, row["condition"], level=BELOW[row["level"]])

    @on(Table.Chosen, "#overview-categories")
    def _category_chosen(self, event: Table.Chosen) -> None:
        if event.table.row is not None:
            self._look_into(event.table.row, equals("category", event.table.row["key"]))

    @on(Table.Chosen, "#overview-streams")
    def _stream_chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if row is not None:
            named = ("device", "stream", "process") if row["shared"] else ("device", "stream")
            condition = " AND ".join(equals(column, row[column]) for column in named)
            self._look_at(self.choice.narrowed(condition).where, traces=(row["trace"],))

    @on(Table.Chosen, "#overview-traces")
    def _trace_chosen(self, event: Table.Chosen) -> None:
        row = event.table.row
        if row is not None:
            marked = self.shell.marked or (row["trace"],)
            self.shell.choose(traces=() if self.choice.traces == marked else marked)

    @on(Table.Moved, "#overview-top")
    def _moved(self, event: Table.Moved) -> None:
        if event.table.row is not None and self.shell.pane is self:
            self.shell.signature = event.table.row.get("signature_id")

    def _look_into(self, row: Row, condition: str, **changes: Any) -> None:
        """The launches of a row; where sums alone are known of it, which meet no condition, its largest signature."""
        if row["listed"] or not row["signature_id"]:
            self._look_at(self.choice.narrowed(condition).where, **changes)
        else:
            self.shell.show_signature(row["signature_id"])

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
        named = row.get("kernel") or row.get("trace") or row.get("category") or ""
        return [Copy("y", "row", focused.row_text), Copy("n", "name", named)]


def _top(groups: pa.Table, level: str) -> list[Row]:
    same = groups["op" if level == "op" else "kernel"].to_pylist()
    found, cumulative = [], 0.0
    for place, row in enumerate(groups.slice(0, TOP).to_pylist()):
        cumulative += row["share_pct"] or 0.0
        condition = _condition(row, level, same.count(same[place]))
        shown = row["key"] if level == "op" else row["kernel"]
        more = {"kernel": shown, "cumulative": cumulative, "level": level, "condition": condition}
        found.append(_with_share(row, _largest(groups)) | more)
    return found


def _condition(row: Row, level: str, alike: int) -> str:
    """What the launches of a row meet; `alike` rows, with it, have its name. The name is what people read."""
    if level == "op":
        return op_condition(row, alike)
    if level == "kernel" and row["kernel"] is not None and alike == 1:
        return equals("short_name", row["kernel"])
    return equals(f"{'name' if level == 'kernel' else level}_id", row["key"])


def _total(groups: pa.Table) -> int | None:
    """The time of all groups; None where none is known. One of launches without durations has none."""
    known = [total for total in groups["total_ns"].to_pylist() if total is not None]
    return sum(known) if known else None


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
    """A line of the streams. Of `several` traces each is named; so is each process where a trace has more than one."""
    heights, shared, total = [0.0] * BINS, row["processes"] > 1, row["total_ns"]
    for place, height in zip(row["bins"], row["totals"], strict=True):
        heights[place] = height or 0.0
    name = f"{_or_unknown(row['device'])}:{_or_unknown(row['stream'])}"
    if shared:
        name = f"{name} pid {row['process'] or numbers.UNKNOWN}"
    return row | {
        "lane": f"{name} {row['trace']}" if several else name,
        "shared": shared,
        "busy": None if total is None else min(100.0, 100 * total / row["span_ns"]),
        "sparkline": numbers.sparkline(heights, row["span_ns"] / BINS),
    }


def _or_unknown(value: int | None) -> str:
    return numbers.UNKNOWN if value is None else str(value)


def _note(row: Row, chosen: tuple[str, ...]) -> str:
    if row["trace"] in chosen:
        return "◂ selected"
    if row["kind"] == "profiled":
        return "counters"
    if not row["is_primary"]:
        return "not counted"
    if row["kind"] != "timeline":
        return "sums only" if row["kind"] == "summary" else str(row["kind"])
    return f"{row['summed']:,} in sums" if row["summed"] else ""
