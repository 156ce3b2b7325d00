"""The screen Roofline: how near kernels come to the peaks of the GPU, by what they compute per byte moved."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from kerneldb.tui import legends, theme
from kerneldb.tui.empty_messages import why_empty
from kerneldb.tui.model import Pointed
from kerneldb.tui.numbers import amount, count, duration, fit, percent, safe, several
from kerneldb.tui.pane import CALL, Copy, Pane, kernel_copies
from kerneldb.tui.widgets.scatter import Dot, Plane, Roof, Scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from kerneldb.tui.widgets.table import Row


LISTED: Final = 60
LIST_WIDTH: Final = 46
LIST_FROM: Final = 120
"""Columns of a terminal that has room for the list beside the plane."""
ALIKE: Final = 1.05
"""Roofs that differ by no more are drawn as one: peaks by counters vary with the clock."""
MOST_ROOFS: Final = 6


class RooflinePane(Pane):
    """Dots of kernels below the roofs of their types; where only percentages are known, those against each other."""

    TITLE = "Roofline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j,full_stop", "walk(1)", "Next by time", key_display="↓"),
        Binding("up,k,comma", "walk(-1)", "Previous by time", show=False),
        Binding("right,l", "across(1)", "Right", key_display="→"),
        Binding("left,h", "across(-1)", "Left", show=False),
        Binding("home", "walk(-1000000)", "Most time", show=False),
        Binding("end", "walk(1000000)", "Least time", show=False),
        Binding("n", "normalize", "Normalized"),
        Binding("enter", "open", "Kernel"),
        CALL,
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
        found = await self.store.rows("tui_roofline", None, selection)
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
        self._draw()
        return None

    async def _relative(self) -> list[Row]:
        """What is known in percent of the peaks only."""
        known = await self.store.rows("tui_roofline_normalized", None, self.choice.selection())
        if self.wants_percent and not known:
            self.wants_percent = False
            message = "No percentages of peaks: the Selection holds no counters of Nsight Compute."
            self.shell.notify(message, markup=False)
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
            self.call_after_refresh(self._draw)

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
            self._draw()

    def action_normalize(self) -> None:
        """Percent of the compute peak against percent of the memory peak, or back to FLOP/s."""
        self.wants_percent = not self.wants_percent
        self.reload()

    def action_open(self) -> None:
        """Everything about the kernel."""
        if self.rows:
            self.shell.show_signature(self.rows[self.place]["signature_id"])

    def pointed(self) -> Pointed | None:
        """The kernel of the dot under the cursor, in its trace."""
        row = self.rows[self.place] if self.rows else {}
        return Pointed.of(row, row.get("trace"))

    def command(self) -> str | None:
        """The same points on the command line."""
        return self.shell.command("analyze", "roofline")

    def copies(self) -> list[Copy]:
        """The kernel under the cursor."""
        row = self.rows[self.place] if self.rows else None
        return [] if row is None else kernel_copies(row["kernel"], row["signature_id"])

    # Texts.

    def _draw(self) -> None:
        self.query_one("#about", Static).update(self._about(self.rows[self.place]))
        self.query_one("#left-out", Static).update(self._left_out())
        self.query_one("#ranking", Static).update(self._ranking())

    def _left_out(self) -> Content:
        """What the colours are, and how much of the time the dots show."""
        categories = dict.fromkeys(row["category"] for row in self.rows)
        ink = None if self.app.no_color else partial(theme.ink, self.app)
        entries = [(theme.category_hue(one), legends.category(one, ink)) for one in categories]
        return legends.legend(entries, [self._shown(), self._shown(brief=True)], self.size.width - 2, ink)

    def _shown(self, *, brief: bool = False) -> str:
        """How much of the time the dots show."""
        known = sum(row["total_ns"] for row in self.rows)
        missing = sum(row["total_ns"] for row in self.without)
        signatures = several(_distinct(self.rows), "signature")  # one has a dot per trace and device
        many = _distinct(self.rows) < len(self.rows)
        parts = [f"{signatures} in {count(len(self.rows))} dots" if many and not brief else signatures]
        if self.without:
            share = percent(100 * missing / ((known + missing) or 1))
            why = "without counters " if self.percent else "without FLOPs or bytes "
            of_time = "" if brief else " of the time"
            parts.append(f"{count(_distinct(self.without))} {'' if brief else why}left out ({share}{of_time})")
        if self.percent:
            why = f": {self.rows[self.place].get('reason') or 'no peaks'}"
            parts.append("percentages only" + ("" if brief else why))
        return " · ".join(parts)

    def _about(self, row: Row) -> Content:
        devices = {one.get("device") for one in self.rows}
        gpu = f"GPU {row['device']}" if len(devices) > 1 and row.get("device") is not None else ""
        facts = [row["category"], row["dtype"], row.get("op"), row["trace"], gpu]
        times = f"{several(row['n'], 'launch', 'launches')}  {duration(row['total_ns'])}"
        return Content.assemble(
            Content.styled(safe(row["kernel"] or "?"), "bold"),
            Content.styled("  " + safe(" · ".join(filter(None, facts))), "dim"),
            "\n",
            f"{times}  {_rates(row, percentages=self.percent)}",
            "\n",
            Content.styled(safe(bound_of(row)), "dim"),
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
            shown = Content.styled(text, "reverse" if place == self.place else "")
            mark = theme.category_letter(row["category"]) if self.app.no_color else "●"
            lines.append(Content.assemble(Content.styled(f"{mark} ", colour), shown))
        return Content("\n").join(lines)


def _rates(row: Row, *, percentages: bool) -> str:
    if percentages:
        return f"compute {percent(row['compute_pct'])}  memory {percent(row['memory_pct'])}"
    parts = [rate(row["flops_per_second"], "FLOP/s"), rate(row["bytes_per_second"], "B/s")]
    parts.append(f"{plain(row['intensity'])} FLOP/byte")
    if row["pct_attainable"] is not None:
        parts.append(f"{percent(row['pct_attainable'])} of attainable")
    return "  ".join(parts)


def bound_of(row: Row) -> str:
    """What bounds a kernel and by which peaks, or why that is not known; first, why it is above its roof."""
    if row.get("bound") is None:
        return row.get("reason") or (_without_roof(row) if "ridge" in row else "")
    above = ""
    if (row["pct_attainable"] or 0.0) > 100.05:  # noqa: PLR2004 (rounded, more than all of what is attainable)
        # The work is known from its shapes, not how the kernel did it.
        why = "caches served some of the bytes" if row["bound"] == "memory" else "it did less, or clocks were higher"
        above = f"above its roof, so {why}; "
    side = "below" if row["bound"] == "memory" else "above"
    ridge = f"{side} the ridge of {plain(row['ridge'])} FLOP/byte"
    peaks = f"{rate(row['peak_flops_per_second'], 'FLOP/s')} and {rate(row['peak_bytes_per_second'], 'B/s')}"
    return f"{above}{row['bound']} bound: {ridge}; peaks {peaks}; by {row['method']}"


def _without_roof(row: Row) -> str:
    """Which peak of a kernel is not known, though others are of the same GPU."""
    flops, moved = row["peak_flops_per_second"], row["peak_bytes_per_second"]
    if not flops and not moved:
        return "the peaks of this GPU are not known"
    if not moved:
        return f"the bandwidth of this GPU is not known; peak of arithmetic {rate(flops, 'FLOP/s')}"
    why = "no peak of arithmetic is known for its type"
    if row["dtype"] == "fp32":
        why = "which roof is its own is not known: its fp32 inputs may be multiplied as TF32"
    elif row["dtype"]:
        why = f"no peak of arithmetic is known for {row['dtype']}"
    return f"{why}; peak of the memory {rate(moved, 'B/s')}"


def _distinct(rows: Sequence[Row]) -> int:
    return len({row["signature_id"] for row in rows})


def plain(value: float) -> str:
    """Three digits, and no power of ten where the number is large."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"  # noqa: PLR2004


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
        alike = [names for h, s, names in found if max(h / height, height / h, s / slope, slope / s) <= ALIKE]
        names = alike[0] if alike else []
        if not alike:
            found.append((height, slope, names))
        if row["dtype"] and row["dtype"] not in names:
            names.append(row["dtype"])
    highest = sorted(found, reverse=True)[:MOST_ROOFS]
    return tuple(
        Roof(height, slope, f"{', '.join(names) or 'unknown type'} {rate(height, 'FLOP/s')}, {rate(slope, 'B/s')}")
        for height, slope, names in highest
    )


def _no_work(found: Sequence[Row]) -> str:
    """Why there is no dot, and what helps."""
    signatures = several(_distinct(found), "kernel signature")
    total = duration(sum(row["total_ns"] for row in found))
    return (
        f"No FLOPs known of the {signatures} of the Selection ({total}).\n\n"
        "Record with shapes (kerneldb record, or record_shapes=True),\n"
        "ingest counters that count them, or note what you know:\n"
        "kerneldb db annotate --where … --flops 2*8192^3 --bytes 3*8192^2"
    )
