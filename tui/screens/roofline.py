"""The screen Roofline: how near kernels come to the peaks of the GPU, by what they compute per byte moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from kerneldb.tui import theme
from kerneldb.tui.model import equals
from kerneldb.tui.numbers import amount, count, duration, fit, percent, several
from kerneldb.tui.pane import Copy
from kerneldb.tui.reasons import why_empty
from kerneldb.tui.screens.drawn import DrawnPane
from kerneldb.tui.widgets.scatter import Dot, Plane, Roof, Scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from kerneldb.tui.model import Choice

Row = dict[str, Any]

LISTED: Final = 60
LIST_WIDTH: Final = 46
LIST_FROM: Final = 120
"""Columns of a terminal that has room for the list beside the plane."""
ALIKE: Final = 1.05
"""Roofs that differ by no more are drawn as one: peaks by counters vary with the clock."""
MOST_ROOFS: Final = 6
MANY: Final = 999.5
HIGHEST: Final = 100.05
"""Percent of what is attainable that are no more than all of it."""


class RooflinePane(DrawnPane):
    """Dots of kernels below the roofs of their types; where only percentages are known, those against each other."""

    TITLE = "Roofline"
    DEFAULT_CSS = """
    RooflinePane #ranking { width: 46; padding: 0 1; text-wrap: nowrap; border-left: solid $panel; }
    RooflinePane #about { height: 3; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    RooflinePane #left-out { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    RooflinePane Horizontal { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j,full_stop", "walk(1)", "Next by time", key_display="↓"),
        Binding("up,k,comma", "walk(-1)", "Previous by time", show=False),
        Binding("right,l", "across(1)", "Right", key_display="→"),
        Binding("left,h", "across(-1)", "Left", show=False),
        Binding("home", "walk(-1000000)", "Most time", show=False),
        Binding("end", "walk(1000000)", "Least time", show=False),
        Binding("n", "normalize", "Normalized"),
        Binding("enter", "open", "Kernel"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.without: list[Row] = []
        self.percent = False
        self.wants_percent = False
        self.place = 0

    def compose_content(self) -> ComposeResult:
        """The plane, the kernels by time where there is room, the kernel under the cursor."""
        with Horizontal():
            yield Scatter()
            yield Static("", id="ranking", markup=False)
        yield Static("", id="left-out", markup=False)
        yield Static("", id="about", markup=False)

    async def load(self) -> str | None:
        """Points with work and traffic; without any, percentages of the peaks; without these, why not."""
        selection = self.choice.selection()
        found = await self.store.rows("answer_roofline", None, selection)
        if not found:
            return await why_empty(self.store, self.choice, wanted="points")
        held = self.rows[self.place]["signature_id"] if self.rows else self.shell.signature
        counted = [row for row in found if row["intensity"] and row["flops_per_second"]]
        relative = await self._relative() if self.wants_percent or not counted else []
        self.percent = bool(relative)
        self.rows = relative or counted
        shown = {(row["trace"], row["signature_id"]) for row in self.rows}
        self.without = [row for row in found if (row["trace"], row["signature_id"]) not in shown]
        if not self.rows:
            return _no_work(found)
        self.place = next((place for place, row in enumerate(self.rows) if row["signature_id"] == held), 0)
        self.query_one(Scatter).show(self._plane(), self.place)
        self._tell()
        return None

    async def _relative(self) -> list[Row]:
        """What is known in percent of the peaks only."""
        known = await self.store.rows("tui_roofline_normalized", None, self.choice.selection())
        if self.wants_percent and not known:
            self.wants_percent = False
            self.shell.notify(
                "No percentages of peaks: the Selection holds no counters of Nsight Compute.", markup=False
            )
        return [row for row in known if row["compute_pct"] is not None and row["memory_pct"] is not None]

    def _plane(self) -> Plane:
        total = sum(row["total_ns"] for row in self.rows) or 1
        x, y = ("memory_pct", "compute_pct") if self.percent else ("intensity", "flops_per_second")
        dots = [Dot(row[x], row[y], row["total_ns"] / total, row["category"]) for row in self.rows]
        if self.percent:
            memory = "DRAM" if all(row["by_dram"] for row in self.rows) else "memory"
            return Plane(dots, (), f"% of {memory} peak", "% of compute peak", percent=True)
        return Plane(dots, roofs(self.rows), "FLOP/byte", "FLOP/s")

    def on_resize(self) -> None:
        """The list needs room."""
        self.query_one("#ranking").display = self.size.width >= LIST_FROM
        if self.rows:
            self.call_after_refresh(self._tell)

    # Movement.

    def action_walk(self, by: int) -> None:
        """The kernel with the next most (1) or the next least time."""
        self._choose(min(max(self.place + by, 0), len(self.rows) - 1))

    def action_across(self, by: int) -> None:
        """The dot to the right (1) or to the left."""
        x = "memory_pct" if self.percent else "intensity"
        order = sorted(range(len(self.rows)), key=lambda place: (self.rows[place][x], place))
        if order:
            at = order.index(self.place) + by
            self._choose(order[min(max(at, 0), len(order) - 1)])

    @on(Scatter.Chosen)
    def _clicked(self, event: Scatter.Chosen) -> None:
        self._choose(event.number)

    def _choose(self, place: int) -> None:
        if 0 <= place < len(self.rows):
            self.place = place
            self.query_one(Scatter).show(chosen=place)
            self._tell()

    def action_normalize(self) -> None:
        """Percent of the compute peak against percent of the memory peak, or back to FLOP/s."""
        self.wants_percent = not self.wants_percent
        self.reload()

    def action_open(self) -> None:
        """Everything about the kernel."""
        if self.rows:
            self.shell.show_signature(self.rows[self.place]["signature_id"])

    def choice_changed(self, choice: Choice) -> None:
        """The cursor stays on its kernel, where that is still selected."""
        del choice

    def command(self) -> str | None:
        """The same points on the command line."""
        return self.shell.command("analyze", "roofline")

    def copies(self) -> list[Copy]:
        """The kernel under the cursor."""
        if not self.rows:
            return []
        row = self.rows[self.place]
        return [
            Copy("n", "kernel name", row["kernel"] or ""),
            Copy("r", "WHERE of this kernel", equals("signature_id", row["signature_id"])),
        ]

    # Texts.

    def _tell(self) -> None:
        self.query_one("#about", Static).update(self._about(self.rows[self.place]))
        self.query_one("#left-out", Static).update(self._left_out())
        self.query_one("#ranking", Static).update(self._ranking())

    def _left_out(self) -> Content:
        """How much of the time the dots stand for."""
        known = sum(row["total_ns"] for row in self.rows)
        missing = sum(row["total_ns"] for row in self.without)
        parts = [_signatures(self.rows)]
        if self.without:
            share = percent(100 * missing / ((known + missing) or 1))
            why = "without counters" if self.percent else "without FLOPs or bytes"
            parts.append(f"{count(_distinct(self.without))} {why} left out ({share} of the time)")
        if self.percent:
            parts.append(f"percentages only: {self.rows[self.place].get('reason') or 'no peaks'}")
        categories = dict.fromkeys(row["category"] for row in self.rows)
        colours = [
            part
            for category in categories
            for part in (
                Content.styled(" ■ ", theme.ink(self.app, theme.category_hue(category))),
                Content(category or "unknown"),
            )
        ]
        return Content.assemble(Content.styled(" · ".join(parts), "dim"), " ", *colours)

    def _about(self, row: Row) -> Content:
        head = f"{row['kernel'] or '?'}"
        devices = {one.get("device") for one in self.rows}
        gpu = f"GPU {row['device']}" if len(devices) > 1 and row.get("device") is not None else ""
        facts = [row["category"] or "", row["dtype"] or "", row.get("op") or "", row["trace"], gpu]
        times = f"{several(row['n'], 'launch', 'launches')}  {duration(row['total_ns'])}"
        return Content.assemble(
            Content.styled(head, "bold"),
            Content.styled("  " + " · ".join(filter(None, facts)), "dim"),
            "\n",
            f"{times}  {_rates(row, percentages=self.percent)}",
            "\n",
            Content.styled(bound_of(row), "dim"),
        )

    def _ranking(self) -> Content:
        """The kernels by time, as many as a tall terminal shows, around the cursor."""
        room = max(self.query_one(Scatter).size.height, 1)
        first = max(min(self.place - room // 2, len(self.rows) - room), 0)
        width = LIST_WIDTH - 3
        lines: list[Content] = []
        for place, row in enumerate(self.rows[first : first + min(room, LISTED)], first):
            figure = percent(row["compute_pct"] if self.percent else row["pct_attainable"])
            text = fit(row["kernel"] or "?", width - len(figure) - 3) + f" {figure}"
            colour = theme.ink(self.app, theme.category_hue(row["category"]))
            lines.append(
                Content.assemble(
                    Content.styled("● ", colour), Content.styled(text, "reverse" if place == self.place else "")
                )
            )
        return Content("\n").join(lines)


def _rates(row: Row, *, percentages: bool) -> str:
    if percentages:
        return f"compute {percent(row['compute_pct'])}  memory {percent(row['memory_pct'])}"
    parts = [
        rate(row["flops_per_second"], "FLOP/s"),
        rate(row["bytes_per_second"], "B/s"),
        f"{plain(row['intensity'])} FLOP/byte",
    ]
    if row["pct_attainable"] is not None:
        parts.append(f"{percent(row['pct_attainable'])} of attainable")
    return "  ".join(parts)


def bound_of(row: Row) -> str:
    """What bounds a kernel and by which peaks, or why nobody knows; first of all, why it is above its roof."""
    if row.get("bound") is None:
        return (
            row.get("reason") or "the peaks of this GPU are not known" if "ridge" in row else (row.get("reason") or "")
        )
    side = "below" if row["bound"] == "memory" else "above"
    ridge = f"{side} the ridge of {plain(row['ridge'])} FLOP/byte"
    peaks = f"{rate(row['peak_flops_per_second'], 'FLOP/s')} and {rate(row['peak_bytes_per_second'], 'B/s')}"
    return f"{_above(row)}{row['bound']} bound: {ridge}; peaks {peaks}; by {row['method']}"


def _above(row: Row) -> str:
    """Why a kernel came out better than attainable: what it did is known from its shapes, not how it did it."""
    if (row["pct_attainable"] or 0.0) <= HIGHEST:
        return ""
    why = "caches served some of the bytes" if row["bound"] == "memory" else "it did less, or clocks were higher"
    return f"above its roof, so {why}; "


def _distinct(rows: Sequence[Row]) -> int:
    return len({row["signature_id"] for row in rows})


def _signatures(rows: Sequence[Row]) -> str:
    """How many signatures there are; one has a dot per trace and device."""
    found = several(_distinct(rows), "signature")
    return found if _distinct(rows) == len(rows) else f"{found} in {count(len(rows))} dots"


def plain(value: float) -> str:
    """Three digits, and no power of ten where the number is large."""
    return f"{value:,.0f}" if value >= MANY else f"{value:.3g}"


def rate(value: float, unit: str) -> str:
    """A rate with its prefix: 989 TFLOP/s."""
    text = amount(value)
    return f"{text}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def roofs(rows: Sequence[Row]) -> tuple[Roof, ...]:
    """The roofs of the types that run, highest first; those that look the same are one."""
    found: list[tuple[float, float, list[str]]] = []
    for row in rows:
        height, slope = row["peak_flops_per_second"], row["peak_bytes_per_second"]
        if not height or not slope:
            continue
        names = next((names for *sizes, names in found if _alike(sizes, (height, slope))), None)
        if names is None:
            names = []
            found.append((height, slope, names))
        if row["dtype"] and row["dtype"] not in names:
            names.append(row["dtype"])
    highest = sorted(found, reverse=True)[:MOST_ROOFS]
    return tuple(
        Roof(height, slope, f"{', '.join(names) or 'unknown type'} {rate(height, 'FLOP/s')}, {rate(slope, 'B/s')}")
        for height, slope, names in highest
    )


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(max(pair) <= ALIKE * min(pair) for pair in zip(one, other, strict=True))


def _no_work(found: Sequence[Row]) -> str:
    """Why there is no dot, and what gives some."""
    signatures = several(_distinct(found), "kernel signature")
    total = duration(sum(row["total_ns"] for row in found))
    return "\n".join(
        [
            f"No FLOPs known of the {signatures} of the Selection ({total}).",
            "",
            "Record with shapes (kerneldb record, or record_shapes=True),",
            "ingest counters that count them, or note what you know:",
            "kerneldb db annotate --where … --flops 2*8192^3 --bytes 3*8192^2",
        ]
    )
