"""The screen Overview: what the Selection costs, and in which kernels, categories, streams and traces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Label, Static

from kerneldb.errors import QueryError
from kerneldb.tui import numbers
from kerneldb.tui.empty_messages import no_traces, why_empty
from kerneldb.tui.model import Pointed, equals
from kerneldb.tui.pane import CALL, Copy, Pane
from kerneldb.tui.screens.kernel_table import op_condition
from kerneldb.tui.widgets.columns import Column, text
from kerneldb.tui.widgets.table import Box, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from textual.app import ComposeResult

    from kerneldb.api.queries import Connection
    from kerneldb.report.why import Verdict
    from kerneldb.selection import Selection
    from kerneldb.tui.widgets.table import Row

TOP: Final = 10
"""Kernels that are listed at least; more where a wide terminal has lines for them."""
MOST_TRACES: Final = 12
ABOVE: Final = 12
"""Lines of cards and verdict above the tables, and of titles and margins between them."""
LANES: Final = 8
SENTENCES: Final = 3
"""Of the verdict; `kerneldb why` has the rest."""
LOW: Final = 30
"""Lines of a terminal that has room for one of them only."""
BINS: Final = 32
BELOW: Final = {"op": "kernel", "kernel": "signature", "signature": "launch"}
"""The level that a row of each level is looked at with."""
MOST_LAUNCHES: Final = 1_000_000
"""Beyond this, busy time and the verdict (they sort all launches) are computed only when asked for."""


def _bar(share: float | None) -> str:
    return numbers.bar((share or 0.0) / 100, 10)


_share = partial(numbers.fixed, digits=1)

TOP_COLUMNS: Final = (
    text("kernel", "largest kernels", 22, stretch=True, sortable=False, hue="category", middle=True),
    Column("n", "n", 10, sortable=False),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("share_pct", "%", 5, _share, sortable=False),
    Column("share", "", 10, _bar, right=False, rank=1, sortable=False, hue="category"),
    Column("cumulative", "Σ %", 5, partial(numbers.fixed, digits=0), rank=2, sortable=False),
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
    text("trace", "trace", 20, stretch=True, middle=True, sortable=False),
    text("source", "source", 12, sortable=False, rank=1),
    text("device", "device", 16, sortable=False, rank=3),
    Column("launches", "launches", 10, sortable=False),
    Column("total_ns", "GPU", 8, numbers.duration, sortable=False),
    Column("window_ns", "window", 8, numbers.duration, sortable=False, rank=2),
    text("note", "", 12, sortable=False, rank=4),
)


class Cards(Static):
    """Values by their names, in the order given; as many in a row as fit."""

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


def _verdict(con: Connection, trace: str) -> Verdict:
    from kerneldb.report import why
    from kerneldb.report.asking import asking_of

    with asking_of(con) as ask:
        return why.verdict(ask.about(trace=trace))


def _said(verdict: Verdict, most: int) -> Content:
    """Where the time went, what held it up, and what to do about the largest part."""
    lines = [f"{verdict.trace}: {verdict.headline()}".rstrip(": ")]
    for number, piece in enumerate(verdict.first()[:most], 1):
        lines.append(f"{number}. {piece.sentence}{f' {piece.remedy}' if number == 1 else ''}")
    first, *others = map(numbers.safe, lines)  # which hold names
    return Content("\n").join([Content.styled(first, "bold"), *map(Content, others)])


class OverviewPane(Pane):
    """The verdict, cards, the largest kernels, categories, streams and traces. Enter on anything looks at that."""

    TITLE = "Overview"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark trace", tooltip="Mark a trace; d compares the marked ones"),
        Binding(
            "b",
            "busy_time",
            "Busy time",
            show=False,
            tooltip="Busy time and verdict also of very many launches",
        ),
        Binding("g", "app.level", "Level", show=False),
        CALL,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._cards: dict[str, str] = {}
        self._traces: list[Row] = []
        self._ask_busy = False

    def compose_content(self) -> ComposeResult:
        """Cards and the verdict on top, then two columns where there is room, else one."""
        with VerticalScroll(can_focus=False):
            yield Cards()
            yield Label("", id="overview-scope", markup=False)
            yield Static("", id="overview-verdict", markup=False)
            with Horizontal(id="overview-columns"):
                with Vertical(classes="overview--column"):
                    yield Box("top", TOP_COLUMNS)
                    yield Box("traces", TRACE_COLUMNS, MOST_TRACES)
                with Vertical(classes="overview--column", id="overview-side"):
                    yield Box("categories", CATEGORY_COLUMNS, 19)
                    yield Box("streams", STREAM_COLUMNS, LANES)
            yield Label("Asking the database …", id="overview-hint", markup=False)

    def box(self, name: str) -> Box:
        """One of top, traces, categories, streams."""
        return self.query_one(f"#box-{name}", Box)

    async def load(self) -> str | None:
        """Sums first, then what takes longer."""
        from kerneldb.api import browsing

        selection = self.choice.selection()
        self._traces = await self.store.read(browsing.traces, selection.traces)
        if not self._traces:
            return no_traces(self.store.title)
        await self._load_sums(selection)
        self.ready()
        launches = await self._load_work(selection)
        await self._load_verdict(launches)
        lanes = await self.store.rows("tui_overview_streams", {"bins": BINS, "lanes": LANES}, selection)
        several = len({row["trace"] for row in lanes}) > 1
        self.box("streams").fill([_lane(row, several=several) for row in lanes])
        if launches > MOST_LAUNCHES and not self._ask_busy:
            self._cards["busy (b asks)"] = "?"
        elif launches:
            (found,) = await self.store.rows("tui_overview_busy", None, selection)
            # Each device of each trace has a time of its own.
            self._cards["wall" if found["devices"] == 1 else "wall, summed"] = numbers.duration(found["span_ns"])
            busy = 100 * found["busy_ns"] / found["span_ns"] if found["span_ns"] else None
            self._cards["GPU busy"] = numbers.percent(busy)
        self._ask_busy = False
        self._show_cards()
        return None

    async def _load_verdict(self, launches: int) -> None:
        """What holds up the one trace that is looked at, or the one with most time; of a part of a trace nothing."""
        shown, chosen = self.query_one("#overview-verdict", Static), self.choice.traces or self._traces_by_time()
        if self.choice.where.strip() or not chosen or (launches > MOST_LAUNCHES and not self._ask_busy):
            shown.display = False
            return
        try:
            found = await self.store.read(_verdict, chosen[0])
        except QueryError:  # times that are no times add up to none
            shown.display = False
            return
        shown.update(_said(found, 1 if self.size.height < LOW else SENTENCES))
        shown.display = True
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Leave out kernels beyond the first ones where that saves scrolling: a verdict may take many lines."""
        over, top = self.query_one(VerticalScroll).max_scroll_y, self.box("top")
        left = len(top.table.rows) - over
        if over and left >= TOP:
            top.fill([row for place in range(left) if (row := top.table.rows.row(place))], top.table.cursor)

    def _traces_by_time(self) -> tuple[str, ...]:
        known = [row for row in self._traces if row["total_ns"] is not None]
        return tuple(row["trace"] for row in sorted(known, key=lambda row: -row["total_ns"]))

    async def _load_sums(self, selection: Selection) -> None:
        from kerneldb.api import browsing

        level = "kernel" if self.choice.level == "launch" else self.choice.level
        groups = await self.store.read(browsing.kernels, selection, level)
        categories = await self.store.read(browsing.kernels, selection, "category")
        sums = await self.store.summed(self.choice)
        # Launches without durations have no time.
        known = [total for total in groups["total_ns"].to_pylist() if total is not None]
        n = sum(groups["n"].to_pylist())
        unlisted = f" ({'all' if sums == n else numbers.count(sums)} in sums only)" if sums else ""
        # Some launches may enter no sums; the status line counts all.
        looked_at = [row for row in self._traces if not self.choice.traces or row["trace"] in self.choice.traces]
        left_out = any(row["launches"] and (row["kind"] != "timeline" or not row["is_primary"]) for row in looked_at)
        self._cards = {
            "GPU time": numbers.duration(sum(known) if known else None),
            "primary launches" if left_out else "launches": numbers.count(n) + unlisted,
            f"{level}s": numbers.count(groups.num_rows),
        }
        self._show_cards()
        self._show_traces()
        self.box("top").fill(_top(groups, level, self._room()))
        self.box("categories").fill(_with_shares(categories))
        hint = "" if groups.num_rows else (await why_empty(self.store, self.choice)).replace("\n\n", "\n")
        self.query_one("#overview-hint", Label).update(hint)
        self.query_one("#overview-hint", Label).display = bool(hint)
        over = await self._over_what() if groups.num_rows else ""
        self.query_one("#overview-scope", Label).update(over)
        self.query_one("#overview-scope", Label).display = bool(over)

    async def _over_what(self) -> str:
        """What sums are over where their times do not add up: kinds of traces, or several GPUs; else nothing."""
        from kerneldb.api import adding_up

        (found,) = await self.store.rows("scope", {"names": list(self.choice.traces) or None})
        if len(found["kinds"] or []) > 1:
            return f"Sums over traces of different kinds, whose times do not add up: {', '.join(found['kinds'])}."
        gpus = found["gpus"] or []
        return f"Sums over {adding_up.scope(found['traces'], gpus)}." if len(gpus) > 1 else ""

    async def _load_work(self, selection: Selection) -> int:
        """Cards about signatures, replays and energy; returns the number of launches."""
        (work,) = await self.store.rows("tui_overview_work", None, selection)
        signatures = work["signatures"]
        if not self.choice.where.strip():  # also those that are known by sums alone; a condition meets none of these
            from kerneldb.api import browsing

            signatures = (await self.store.read(browsing.kernels, selection, "signature")).num_rows
        if signatures:
            self._cards["signatures"] = numbers.count(signatures)
        share = 100 * (work["replayed_ns"] or 0) / work["total_ns"] if work["total_ns"] else None
        self._cards["replayed"] = numbers.percent(share)
        if work["energy_mj"] is not None:
            self._cards["energy"] = numbers.energy(work["energy_mj"])
        self._show_cards()
        return work["launches"] or 0

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

    def _room(self) -> int:
        """How many kernels there is room for beside the other tables; below them they would hide these."""
        if not self.screen.has_class("-wide"):
            return TOP
        return max(TOP, self.size.height - ABOVE - min(len(self._traces), MOST_TRACES))

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
        """Compute busy time although there are very many launches."""
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
        if (row := event.table.row) is not None:
            self._look_into(row, row["condition"], level=BELOW[row["level"]])

    @on(Table.Chosen, "#overview-categories")
    def _category_chosen(self, event: Table.Chosen) -> None:
        if (row := event.table.row) is not None:
            self._look_into(row, equals("category", row["key"]))

    @on(Table.Chosen, "#overview-streams")
    def _stream_chosen(self, event: Table.Chosen) -> None:
        if (row := event.table.row) is not None:
            named = ("device", "stream", "process") if row["shared"] else ("device", "stream")
            condition = " AND ".join(equals(column, row[column]) for column in named)
            self._look_at(self.choice.narrowed(condition).where, traces=(row["trace"],))

    @on(Table.Chosen, "#overview-traces")
    def _trace_chosen(self, event: Table.Chosen) -> None:
        if (row := event.table.row) is not None:
            marked = self.shell.marked or (row["trace"],)
            self.shell.choose(traces=() if self.choice.traces == marked else marked)

    @on(Table.Moved, "#overview-top")
    def _moved(self, event: Table.Moved) -> None:
        if (row := event.table.row) is not None and self.shell.pane is self:
            self.shell.signature = row.get("signature_id")

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

    def pointed(self) -> Pointed | None:
        """The largest kernel of the row under the cursor."""
        focused = self.screen.focused
        return Pointed.of((focused if isinstance(focused, Table) else self.box("top").table).row or {})

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


def _top(groups: pa.Table, level: str, most: int) -> list[Row]:
    """The first groups, each with its cumulative share and the condition that its launches meet."""
    names = groups["op" if level == "op" else "kernel"].to_pylist()
    found, cumulative = [], 0.0
    for place, row in enumerate(_with_shares(groups.slice(0, most))):
        cumulative += row["share_pct"] or 0.0
        same_name = names.count(names[place])
        if level == "op":
            condition = op_condition(row, same_name)
        elif level == "kernel" and row["kernel"] is not None and same_name == 1:  # that is what people read
            condition = equals("short_name", row["kernel"])
        else:
            condition = equals(f"{'name' if level == 'kernel' else level}_id", row["key"])
        shown = row["key"] if level == "op" else row["kernel"]
        found.append(row | {"kernel": shown, "cumulative": cumulative, "level": level, "condition": condition})
    return found


def _with_shares(groups: pa.Table) -> list[Row]:
    """Rows whose bar is as long as their part of the first one, which is the largest."""
    rows: list[Row] = groups.to_pylist()
    largest = rows[0]["share_pct"] if rows else None
    return [row | {"share": 100 * (row["share_pct"] or 0.0) / largest if largest else None} for row in rows]


def _lane(row: Row, *, several: bool) -> Row:
    """A line of the streams. Of `several` traces each is named; so is each process where a trace has more than one."""
    heights, shared, total = [0.0] * BINS, row["processes"] > 1, row["total_ns"]
    for place, height in zip(row["bins"], row["totals"], strict=True):
        heights[place] = height or 0.0
    device, stream = (numbers.UNKNOWN if row[key] is None else row[key] for key in ("device", "stream"))
    name = f"{device}:{stream}"
    if shared:
        name = f"{name} pid {row['process'] or numbers.UNKNOWN}"
    return row | {
        "lane": f"{name} {row['trace']}" if several else name,
        "shared": shared,
        "busy": None if total is None else min(100.0, 100 * total / row["span_ns"]),
        "sparkline": numbers.sparkline(heights, row["span_ns"] / BINS),
    }


def _note(row: Row, chosen: tuple[str, ...]) -> str:
    if row["trace"] in chosen:
        return "◂ selected"
    if row["kind"] in {"profiled", "replay"}:
        return "counters"
    if not row["is_primary"]:
        return "not primary"
    if row["kind"] != "timeline":
        return "sums only" if row["kind"] == "summary" else str(row["kind"])
    return f"{row['summed']:,} in sums" if row["summed"] else ""
