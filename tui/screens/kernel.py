"""The screen Kernel: everything known about one signature, with a histogram of its durations."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from kerneldb.errors import KerneldbError
from kerneldb.output import units
from kerneldb.output.tables import product
from kerneldb.output.text import display_width, format_value
from kerneldb.tui import numbers, theme
from kerneldb.tui.empty_messages import why_empty
from kerneldb.tui.model import Choice, Pointed, equals
from kerneldb.tui.pane import CALL, Copy, Pane
from kerneldb.tui.tasks import supersede
from kerneldb.tui.widgets.columns import Column, lines, short_shape, text
from kerneldb.tui.widgets.gantt import clock
from kerneldb.tui.widgets.table import Box, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from kerneldb.api import SignaturePage
    from kerneldb.api.browsing import LaunchKeys
    from kerneldb.tui.widgets.columns import Fact
    from kerneldb.tui.widgets.table import Row


HEIGHT: Final = 6
NONE: Final = "no durations of single launches"


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """`n` values, the smallest and the largest of them `low` and `high` (both in it); an empty bin has none."""

    n: int = 0
    low: int | None = None
    high: int | None = None


class Histogram(Widget, can_focus=True):
    """Bars over bins. Left and right walk, with shift they take a range, Enter hands it over."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"histogram--axis"}
    DEFAULT_CSS = f"""
    Histogram {{ height: {HEIGHT + 2}; padding: 0 1; }}
    Histogram .histogram--axis {{ text-style: dim; }}
    Histogram.-flat {{ height: 1; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "walk(-1, False)", "Shorter", show=False),
        Binding("right", "walk(1, False)", "Longer", show=False),
        Binding("shift+left", "walk(-1, True)", "Range", show=False),
        Binding("shift+right", "walk(1, True)", "Range", show=False),
        Binding("enter", "take", "Take"),
    ]

    bins: reactive[tuple[Bin, ...]] = reactive(())
    place: reactive[int | None] = reactive(None)
    origin: reactive[int | None] = reactive(None)

    @dataclasses.dataclass
    class Taken(Message):
        """Launches from `low` to `high` ns are wanted."""

        low: int
        high: int

    def __init__(self) -> None:
        super().__init__()
        self._none = ""

    def show(self, bins: Sequence[Bin], none: str = NONE) -> None:
        """Draw other bins; where there are none, say `none`."""
        self._none = none
        self.bins = tuple(bins)
        self.set_class(len(self.bins) < 2, "-flat")  # noqa: PLR2004
        self.place = self.origin = None
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Without bins there is no range to take."""
        return bool(self.bins) if action in {"walk", "take"} else True

    @property
    def taken(self) -> tuple[int, int] | None:
        """The range of bins under the cursor, both ends in it."""
        if self.place is None:
            return None
        other = self.place if self.origin is None else self.origin
        return min(self.place, other), max(self.place, other)

    def action_walk(self, by: int, extend: bool) -> None:
        """Move the cursor; with `extend` the place where it was stays an end of the range."""
        if not self.bins:
            return
        at = self.place if self.place is not None else (0 if by > 0 else len(self.bins) - 1) - by
        self.origin = (self.origin if self.origin is not None else at) if extend and self.place is not None else None
        self.place = min(max(at + by, 0), len(self.bins) - 1)

    def action_take(self) -> None:
        """Hand the range over."""
        chosen = self._chosen()
        if chosen.low is not None and chosen.high is not None:
            self.post_message(self.Taken(chosen.low, chosen.high))

    def _chosen(self) -> Bin:
        """The bins in the range as one; all of them where there is no range."""
        first, last = self.taken or (0, len(self.bins) - 1)
        bins = [one for one in self.bins[first : last + 1] if one.n]
        lows, highs = (
            (one.low for one in bins if one.low is not None),
            (one.high for one in bins if one.high is not None),
        )
        return Bin(sum(one.n for one in bins), min(lows, default=None), max(highs, default=None))

    def render_line(self, y: int) -> Strip:
        """A row of bars, the axis, or what is under the cursor."""
        width = self.content_size.width
        axis = self.rich_style + self.get_component_rich_style("histogram--axis", partial=True)
        if len(self.bins) < 2:  # noqa: PLR2004
            text = self._legend() if self.bins else self._none if y == 0 else ""
            segments = [Segment(text, axis)]
        elif y < HEIGHT:
            segments = self._bars(y)
        else:
            segments = [Segment(self._axis() if y == HEIGHT else self._legend(), axis)]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _bars(self, y: int) -> list[Segment]:
        top = max(one.n for one in self.bins)
        plain = self.rich_style + Style(color=theme.colour(self.app, "blue"))
        underline = self.app.no_color or None
        marked = self.rich_style + Style(color=theme.colour(self.app, "orange"), bold=True, underline=underline)
        taken, cells = self.taken, self._cells()
        segments = []
        for index, one in enumerate(self.bins):
            here = taken is not None and taken[0] <= index <= taken[1]
            filled = one.n / top * HEIGHT - (HEIGHT - 1 - y)
            height = min(max(round(filled * 8), 0), 8)
            if y == HEIGHT - 1 and one.n:
                height = max(height, 1)
            mark = "·" if here and not height else numbers.BLOCKS[height]
            segments.append(Segment(mark * cells, marked if here else plain))
        return segments

    def _cells(self) -> int:
        """How wide a bin is."""
        return min(max(1, self.content_size.width // len(self.bins)), 2)

    def _axis(self) -> str:
        known = [one for one in self.bins if one.low is not None]
        cells = self._cells() * len(self.bins)
        left, right = numbers.duration(known[0].low), numbers.duration(known[-1].high)
        return left + right.rjust(max(cells - len(left), len(right) + 1))

    def _legend(self) -> str:
        chosen, total = self._chosen(), sum(one.n for one in self.bins)
        if chosen.low is None:
            return "none in this range"
        low, high = numbers.duration(chosen.low), numbers.duration(chosen.high)
        launches = numbers.several(total, "launch", "launches")
        which = launches if chosen.n == total else f"{chosen.n:,} of {launches}"
        return f"{which} took {low}" + (f" to {high}" if high != low else "")


SUMS_ONLY: Final = "no single launches: its traces report sums only"
SHORT_LINES: Final = 2
FRAME: Final = 5
"""Columns between a name and its value, and on both sides of them."""
NAME_LINES: Final = 4
"""So many lines of the short name and of the full one; the rest of the page is to be seen without scrolling."""
BINS: Final = 48
MOST: Final = 14


def _measured(value: float | None) -> str:
    """Four digits at least; large ones with a prefix."""
    if value is None or abs(value) >= 1e6:  # noqa: PLR2004
        return numbers.amount(value)
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:.4g}"  # noqa: PLR2004


def _power(value: float | None) -> str:
    return numbers.UNKNOWN if value is None else f"{value:.0f} W"


TIMES: Final = (
    text("trace", "trace", 18, stretch=True, middle=True, sortable=False),
    text("phase", "phase", 10, sortable=False, rank=2),
    Column("n", "n", 8, sortable=False),
    Column("total_ns", "total", 8, numbers.duration, sortable=False),
    Column("mean_ns", "mean", 8, numbers.duration, sortable=False),
    Column("median_ns", "median", 8, numbers.duration, sortable=False, rank=1),
    Column("min_ns", "min", 8, numbers.duration, sortable=False, rank=1),
    Column("max_ns", "max", 8, numbers.duration, sortable=False, rank=1),
)
COUNTERS: Final = (
    text("metric", "counter", 30, stretch=True, sortable=False, middle=True),
    Column("mean", "mean", 12, _measured, sortable=False),
    Column("min", "min", 10, _measured, sortable=False, rank=2),
    Column("max", "max", 10, _measured, sortable=False, rank=2),
    text("unit", "unit", 15, sortable=False, rank=1),
    Column("launches", "n", 5, sortable=False, rank=2),
    text("method", "matched by", 12, sortable=False, rank=3),
)
BOUNDS: Final = (
    text("rule", "rule", 12, sortable=False),
    text("verdict", "limited by", 18, sortable=False),
    text("detail", "because", 24, stretch=True, sortable=False, rank=1),
    Column("launches", "n", 5, sortable=False),
)
REPLAYS: Final = (
    text("grade", "grade", 5, sortable=False),
    text("route", "route", 10, sortable=False, rank=1),
    text("cache", "cache", 6, sortable=False),
    Column("replay_ns", "median", 8, numbers.duration, sortable=False),
    Column("low_ns", "low", 8, numbers.duration, sortable=False, rank=2),
    Column("high_ns", "high", 8, numbers.duration, sortable=False, rank=2),
    Column("ratio", "÷ trace", 7, numbers.ratio, sortable=False),
    Column("runs", "runs", 5, sortable=False, rank=3),
    Column("power_w", "power", 7, _power, rank=2, sortable=False),
    Column("energy_mj", "energy", 8, numbers.energy, sortable=False, rank=1),
    Column("clock_mhz", "MHz", 5, sortable=False, rank=3),
    text("reason", "note", 12, stretch=True, sortable=False, rank=2),
)
MATCHES: Final = (
    text("kernel", "likely the same work as", 24, stretch=True, sortable=False, middle=True),
    text("method", "matched by", 16, sortable=False),
    Column("candidates", "of", 4, sortable=False, rank=1),
    text("signature_id", "signature", 16, sortable=False),
)
TABLES: Final = {
    "times": TIMES, "replays": REPLAYS, "counters": COUNTERS, "bounds": BOUNDS, "matches": MATCHES,
}  # fmt: skip
LONG: Final = frozenset({"name", "demangled", "match_name", "decoded", "template"})
"""Facts that would fill the column; the full name is shown at the top."""


class KernelPane(Pane):
    """Name, histogram, times, replays, counters, what bounds it, facts, and matches elsewhere."""

    TITLE = "Kernel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "step(1)", "Next"),
        Binding("p", "step(-1)", "Previous"),
        Binding("l", "launches", "Launches", tooltip="Look at the launches of this signature"),
        Binding("full_stop", "launch(1)", "Next launch", show=False, key_display="."),
        Binding("comma", "launch(-1)", "Previous launch", show=False, key_display=","),
        CALL,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.page: SignaturePage | None = None
        self.launch: dict[str, Any] | None = None
        self._order: tuple[Choice, list[str]] | None = None
        self._launch_index = -1
        self._launch_keys: LaunchKeys | None = None
        self._steps = self._launch_steps = 0
        self._stepping = False
        self._recorded: dict[str, int] = {}
        self._about_launch = ""

    def compose_content(self) -> ComposeResult:
        """One column; facts side by side where there is room."""
        with VerticalScroll(can_focus=False):
            yield Static(id="detail-title", markup=False)
            yield Static("all launches of the signature", id="detail-scope", markup=False)
            with Horizontal(id="detail-top"):
                yield Histogram()
                with Vertical(id="detail-rest"):
                    yield Box("times", TIMES, MOST)
                    yield Box("replays", REPLAYS, MOST)
            yield Box("counters", COUNTERS, MOST)
            yield Box("bounds", BOUNDS, MOST)
            with Horizontal(id="detail-facts"):
                yield Static(id="detail-left", markup=False)
                yield Static(id="detail-right", markup=False)
            yield Box("matches", MATCHES, MOST)

    def box(self, name: str) -> Box:
        """One of times, replays, counters, bounds, matches."""
        return self.query_one(f"#box-{name}", Box)

    async def load(self) -> str | None:
        """The page of `show`, the histogram, the replays."""
        if self.shell.signature is None:
            order = await self._signatures()
            if not order:
                self._launch_steps = 0
                return await why_empty(self.store, self.choice, wanted="launches")
            self.shell.signature = order[0]
        signature_id = self.shell.signature
        params: dict[str, Any] = {"signature_id": signature_id}
        recorded = {row["trace"]: row["n"] for row in await self.store.rows("tui_kernels_recorded", params)}
        self.page = await self.store.call(lambda database: database.show(signature_id))
        self._recorded, self._about_launch = recorded, ""
        self._launch_index, self._launch_keys, self.launch = -1, None, None
        replays = await self.store.rows("tui_signature_replays", params)
        self._show(self.page, replays)
        self.ready()
        self._step_launches()
        traces = Choice(traces=self.choice.traces).selection()
        found = await self.store.rows("tui_histogram", params | {"bins": BINS}, traces)
        bins = {row["bin"]: Bin(row["n"], row["min_ns"], row["max_ns"]) for row in found}
        shown = [bins.get(place, Bin()) for place in range(BINS)] if len(bins) > 1 else list(bins.values())
        self.query_one(Histogram).show(shown, self._without_launches(self.choice.traces) or NONE)
        self.query_one("#detail-scope").set_class(bool(self.choice.where.strip()), "-wider")
        return None

    def _without_launches(self, traces: tuple[str, ...]) -> str:
        """Why no single launch of the signature is among those of `traces` (none: all); empty where one is."""
        if not self._recorded:
            return SUMS_ONLY if self.page is not None and self.page.tables["times"] else NONE
        if not traces or any(name in self._recorded for name in traces):
            return ""
        n, outside = numbers.several(sum(self._recorded.values()), "launch", "launches"), list(self._recorded)
        where = outside[0] if len(outside) == 1 else numbers.several(len(outside), "trace")
        return f"{n} of it, outside of the Selection: in {where}"

    def shown(self) -> None:
        """The pane came to the front: perhaps the cursor of another screen is on another kernel by now."""
        self._stale = self._stale or self._other_wanted
        super().shown()

    def on_resize(self) -> None:
        """A long name is cut to lines, whose width is another one now."""
        if self.page is not None:
            self._entitle(self.page)

    def _entitle(self, page: SignaturePage) -> None:
        title = _title(page, max(self.size.width - 4, 20), self._about_launch)
        self.query_one("#detail-title", Static).update(title)

    def _show(self, page: SignaturePage, replays: list[dict[str, Any]]) -> None:
        self._entitle(page)
        known = {key: value for fields in page.sections.values() for key, value in fields.items() if value is not None}
        facts = [(key, _written(key, value)) for key, value in known.items() if key not in LONG]
        half = (len(facts) + 1) // 2 if _fit_beside(facts, self.size.width) else len(facts)
        self.query_one("#detail-left", Static).update(lines(facts[:half]))
        right = self.query_one("#detail-right", Static)
        right.update(lines(facts[half:]))
        right.display = half < len(facts)
        for name in TABLES:
            self.box(name).fill(replays if name == "replays" else page.tables[name])

    async def _signatures(self) -> list[str]:
        """The signatures of the Selection, most time first; profiled ones where nothing else is there."""
        from kerneldb.api import browsing

        choice = self.choice.changed(level="signature")
        if self._order is None or self._order[0] != choice:
            found = await self.store.read(browsing.kernels, choice.selection(), "signature")
            order = found["key"].to_pylist()
            if not order:
                rows = await self.store.rows("tui_signatures", None, choice.selection())
                order = [row["signature_id"] for row in rows]
            self._order = choice, order
        return self._order[1]

    # Keys.

    def action_step(self, by: int) -> None:
        """The next signature of the Selection."""
        self._steps += by
        self._launch_steps = 0  # of this page
        supersede(self, "step", self._step)

    async def _step(self) -> None:
        """All steps that were asked for by now. Nobody wants them any more where another screen is in front."""
        try:
            order = await self._signatures()
        except KerneldbError:
            self._steps = 0
            raise
        by, self._steps = self._steps, 0
        if order and self.shell.pane is self:
            here = self.shell.signature
            place = order.index(here) + by if here in order else 0
            self.shell.show_signature(order[place % len(order)])

    def action_launches(self, *conditions: str, traces: tuple[str, ...] | None = None) -> None:
        """Narrow the Selection to launches of this signature that meet the conditions, too, and show them."""
        if self.page is None:
            return
        choice = self.choice.changed(level="launch", traces=self.choice.traces if traces is None else traces)
        if self._refused(choice.traces):
            return
        for condition in (equals("signature_id", self.page.signature_id), *conditions):
            parts = [] if " or " in choice.where.lower() else choice.where.split(" AND ")
            choice = choice if condition in parts else choice.narrowed(condition)
        self.shell.choose(where=choice.where, traces=choice.traces, level=choice.level)
        self.shell.show("kernels")

    def _refused(self, traces: tuple[str, ...]) -> bool:
        """Whether there are no single launches among those of `traces`; then a notification says why."""
        missing = self._without_launches(traces)
        if missing:
            self.shell.notify(missing, title="No launches to show", markup=False)
        return bool(missing)

    def action_launch(self, by: int) -> None:
        """Say in the title when the next launch was, and how long it took."""
        if self._other_wanted or (self.page is not None and not self._refused(self.choice.traces)):
            self._launch_steps += by
            self._step_launches()

    @property
    def _other_wanted(self) -> bool:
        """Whether the first page, or that of another signature, is on its way; keys that come by then are about it."""
        if self.page is None:
            return self.state == "loading"
        return bool(self._steps) or self.shell.signature not in {None, self.page.signature_id}

    def _step_launches(self) -> None:
        """Handle the keys of launches in one task at a time: while a key is held down, launches are seen to go by."""
        if self._launch_steps and not self._stepping and not self._other_wanted:
            self._stepping = True
            self.run_worker(self._launches, group="cursor")

    async def _launches(self) -> None:
        try:
            while self.page is not None and self._launch_steps and not self._other_wanted:
                by = self._launch_steps
                if await self._launch(self.page, by):
                    self._launch_steps -= by
        except KerneldbError:
            self._launch_steps = 0
            raise
        finally:
            self._stepping = False

    async def _launch(self, page: SignaturePage, by: int) -> bool:
        """So many launches on. False where another page has come meanwhile."""
        from kerneldb.api import browsing

        keys = self._launch_keys
        if keys is None:
            selection = Choice(equals("signature_id", page.signature_id), self.choice.traces).selection()
            keys = await self.store.read(browsing.launch_keys, selection, None, descending=False)
        begin = self._launch_index if self._launch_index >= 0 else -1 if by > 0 else 0
        place = (begin + by) % max(len(keys), 1)
        found = await self.store.read(browsing.launch_page, keys, place, 1)
        if page is not self.page:
            return False
        if found and found[0] is not None:
            self._launch_index, self._launch_keys, self.launch = place, keys, found[0]
            self._about_launch = f"launch {place + 1:,} of {len(keys):,}: {_moment(self.launch)}"
            self._entitle(page)
        return True

    @on(Histogram.Taken)
    def _taken(self, event: Histogram.Taken) -> None:
        self.action_launches(f"duration_ns BETWEEN {event.low} AND {event.high}")

    @on(Table.Chosen, "#overview-matches")
    def _match_chosen(self, event: Table.Chosen) -> None:
        if event.table.row is not None:
            self.shell.show_signature(event.table.row["signature_id"])

    @on(Table.Chosen, "#overview-times")
    def _time_chosen(self, event: Table.Chosen) -> None:
        if event.table.row is not None:
            self.run_worker(self._show_phase(event.table.row), group="phase")

    async def _show_phase(self, row: Row) -> None:
        """The launches of a row of times; one without a phase has the default phase where others have phases."""
        rows = self.page.tables["times"] if self.page is not None else []
        phased = any(other["phase"] is not None for other in rows if other["trace"] == row["trace"])
        phase = row["phase"]
        if phased and phase is None:
            (trace,) = await self.store.call(lambda database: database.traces([row["trace"]]).rows())
            phase = trace["default_phase"]
        self.action_launches(*((equals("phase", phase),) if phased else ()), traces=(row["trace"],))

    # What the application asks for.

    def pointed(self) -> Pointed | None:
        """The launch that the title tells of, else the signature."""
        return (
            None if self.page is None else Pointed.of({"signature_id": self.page.signature_id, **(self.launch or {})})
        )

    def command(self) -> str | None:
        """`kerneldb show`."""
        if self.page is None:
            return None
        return self.shell.command("show", self.page.signature_id, choice=Choice())

    def copies(self) -> list[Copy]:
        """Id, names, call."""
        if self.page is None:
            return []
        identity, call = self.page.sections["identity"], self.page.sections["operator call"]
        return [
            Copy("i", "signature id", self.page.signature_id),
            Copy("n", "kernel name", identity["name"] or ""),
            Copy("m", "demangled name", identity["demangled"] or ""),
            Copy("o", "operator call", f"{call['op']} {call['input_dims'] or ''}".strip() if call["op"] else ""),
        ]


def _title(page: SignaturePage, width: int, more: str = "") -> Content:
    identity = page.sections["identity"]
    short = identity["short_name"] or identity["name"] or page.signature_id
    full = identity["demangled"] or identity["name"] or short
    names = [(short, "bold", SHORT_LINES), *([(full, "dim", NAME_LINES)] if full != short else [])]
    parts = [Content.styled(_shortened(name, width, most), style) for name, style, most in names]
    if size := _size(page):
        parts[0] = Content.assemble(parts[0], Content.styled(f"  {size}", "dim"))
    if any(part.plain.endswith("…") for part in parts):
        parts.append(Content.styled(f"y {'m' if identity['demangled'] else 'n'} copies the whole name", "dim"))
    return Content("\n").join([*parts, *([Content.styled(numbers.safe(more), "bold")] if more else [])])


def _size(page: SignaturePage) -> str | None:
    """What tells calls of one kernel apart: the sizes of its product, else its grid, else the bytes of a copy."""
    work, launch = page.sections["work"], page.sections["launch"]
    found = product(*(work[name] for name in ("gemm_m", "gemm_n", "gemm_k", "gemm_batch")))
    grid = f"grid {launch['grid']}" if launch["grid"] else None
    return found or grid or (None if launch["bytes"] is None else units.size(launch["bytes"]))


def _fit_beside(facts: Sequence[Fact], width: int) -> bool:
    """Whether facts have room in two columns. The end of what is wrapped stands below its name."""
    longest = max((len(name) for name, _ in facts), default=0)
    lengths = [longest + display_width(value or "") + FRAME for _, value in facts]
    return all(length <= width // 2 or length > width for length in lengths)


def _shortened(name: str, width: int, most: int) -> str:
    """A name, or as many lines of it as there is room for."""
    # One line more than there may be, so that there are too many where it is cut.
    lines = [line.plain for line in Content(numbers.cut(name, (most + 1) * width)).wrap(width)]
    if len(lines) <= most:
        return numbers.safe(name)
    return "\n".join([*lines[: most - 1], numbers.cut(lines[most - 1] + "…", width - 1).removesuffix("…") + "…"])


def _moment(launch: dict[str, Any]) -> str:
    parts = [
        launch["trace"],
        f"at {clock(launch['offset_ns'], 1)}" if launch["offset_ns"] is not None else "",
        f"took {numbers.duration(launch['duration_ns'])}",
        f"stream {launch['stream']}" if launch["stream"] is not None else "",
        launch["module"] or launch["phase"],
    ]
    return " · ".join(filter(None, parts))


def _written(key: str, value: Any) -> str:
    if key == "input_dims":
        return short_shape(value) or str(value)
    return format_value(value, key)
