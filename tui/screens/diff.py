"""The screen Diff: what changed between two traces, kernel by kernel."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from kerneldb.shell import Name, kerneldb
from kerneldb.tui import numbers, theme
from kerneldb.tui.dialogs import Pick
from kerneldb.tui.empty_messages import no_traces
from kerneldb.tui.model import Choice, Pointed
from kerneldb.tui.pane import CALL, Copy, Pane, kernel_copies
from kerneldb.tui.widgets.columns import Column, text
from kerneldb.tui.widgets.table import ArrowRows, Row, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.app import ComposeResult

    from kerneldb.api.analyses import Difference
    from kerneldb.tui.theme import Hue


THRESHOLDS: Final = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
"""Percent; 3 is what the command line takes."""
MARKS: Final = {
    "slower": "▲", "faster": "▼", "only before": "−", "only after": "+", "unchanged": "=", "noise": "~", "too few": "?",
}  # fmt: skip
HUES: Final[dict[str, Hue]] = {"slower": "red", "faster": "green", "only before": "cyan", "only after": "magenta"}
SIDES: Final = 2
PICKED_WIDTH: Final = 66
PLACE: Final = "place"
NONE_NEAR: Final = (
    "no other trace has the same GPU and mostly the same kernels.\n\n"
    "b chooses the trace to compare it with, a another one instead of it."
)


def _signed(ns: float | None) -> str:
    return numbers.UNKNOWN if ns is None else ("+" if ns > 0 else "") + numbers.duration(ns)


def _change(value: float | None) -> str:
    if value is None:
        return numbers.UNKNOWN
    return f"{value:+,.0f}%" if abs(value) >= 100 else f"{value:+.1f}%"  # noqa: PLR2004


def _verdict(value: str | None) -> str:
    return f"{MARKS.get(value or '', ' ')} {value or ''}"


COLUMNS: Final = (
    text("kernel", "kernel", 20, stretch=True, middle=True, hue="category"),
    Column("verdict", "verdict", 13, _verdict, right=False),
    Column("total_before_ns", "A total", 9, numbers.duration, rank=2),
    Column("total_after_ns", "B total", 9, numbers.duration, rank=2),
    Column("delta_ns", "Δ total", 10, _signed),
    Column("delta_pct", "Δ%", 7, _change),
    Column("n_before", "A n", 7, rank=3),
    Column("n_after", "B n", 7, rank=3),
    Column("mean_before_ns", "A mean", 9, numbers.duration, rank=5),
    Column("mean_after_ns", "B mean", 9, numbers.duration, rank=5),
    Column("own_delta_pct", "Δ% each", 7, _change, rank=4),
    text("matched_by", "matched", 11, rank=6),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What is compared: the sides may be others by the time that the answer comes."""

    before: str
    after: str
    where: str
    threshold: float


class PickTrace(Pick[str]):
    """One of all traces."""

    def __init__(self, side: str, traces: Sequence[Row], current: str | None) -> None:
        lines, names = [], [row["trace"] for row in traces]
        for row in traces:
            launches = f"{numbers.count(row['launches'])} launches" if row["launches"] else "no single launches"
            facts = filter(None, (row["label"], row["device_names"], row["source"], launches))
            lines.append(numbers.fit(f"{row['trace']}  {' · '.join(facts)}", PICKED_WIDTH).rstrip())
        super().__init__(f"Trace {side}", lines, names, names.index(current) if current in names else 0)


class DiffPane(Pane):
    """Two traces, and a row per kernel that they match by."""

    TITLE = "Diff"
    KEYS_NEED_CONTENT = False
    EXPORTS = "all rows of the comparison, also what did not change"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "pick(0)", "A"),
        Binding("b", "pick(1)", "B"),
        Binding("x", "swap", "Swap"),
        Binding("plus,equals_sign,greater_than_sign", "threshold(1)", "Threshold", key_display="+"),
        Binding("minus,less_than_sign", "threshold(-1)", "less", key_display="-"),
        Binding("u", "unchanged", "Unchanged"),
        CALL,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Row] = []
        self.sides: list[str | None] = [None, None]
        self.threshold = 3.0
        self.quiet_shown = False
        self.found: Difference | None = None
        self.asked: Question | None = None
        self._comparing: asyncio.Task[Difference] | None = None
        self._sort: tuple[str, bool] | None = None
        self._marked: tuple[str, ...] = ()
        self._followed: tuple[str, ...] = ()
        self._by_hand = [False, False]
        self._stray: int | None = None
        """A side that nobody chose, after the other was: another trace may be nearer now."""

    def compose_content(self) -> ComposeResult:
        """The two traces with their sums, the kernels, the kernel under the cursor."""
        yield Static("", id="sides", markup=False)
        yield Table(COLUMNS)
        yield Static("", id="row", markup=False)

    async def load(self) -> str | None:
        """Compare the two traces."""
        self.traces = await self.store.rows("tui_diff_traces")
        names = [row["trace"] for row in self.traces]
        if len(names) < SIDES:
            self.found = self.asked = None
            if not names:
                return no_traces(self.store.title)
            line = kerneldb("ingest", "TRACE", database=self.store.title)
            return f"Diff needs two traces, and there is only {names[0]}.\n\n{line}"
        await self._take_sides(names)
        before, after = self.sides
        if before is None or after is None:
            self.found = self.asked = None
            return f"{before or after}: {NONE_NEAR}"
        asked = Question(before, after, self.choice.where.strip(), self.threshold)
        # One comparison at a time: none can be interrupted, and those of a few keys would hold up every screen
        while self._comparing is not None and not self._comparing.done():
            await asyncio.wait([self._comparing])
        where, threshold = asked.where or None, asked.threshold / 100
        self._comparing = asyncio.create_task(
            self.store.call(lambda database: database.diff(asked.before, asked.after, where=where, threshold=threshold))
        )
        self._comparing.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.found, self.asked = await asyncio.shield(self._comparing), asked
        self._fill()
        return None

    async def _take_sides(self, names: Sequence[str]) -> None:
        """Fill sides that are not chosen: with marked traces, then with those of the Selection, then as they compare.

        A side stays open where no trace can be compared with the other: no answer is better than one of two programs.
        Other marks replace both sides; another Selection those that were not chosen by hand.
        """
        if self.shell.marked != self._marked:
            self._marked, self._by_hand = self.shell.marked, [False, False]
            self.sides = [None, None]
        if self.choice.traces != self._followed:
            self._followed = self.choice.traces
            self.sides = [name if kept else None for name, kept in zip(self.sides, self._by_hand, strict=True)]
        chosen = [name for name in (*self.shell.marked, *self.choice.traces) if name in names]
        self.sides = [name if name in names else None for name in self.sides]
        for side in range(SIDES):
            if self.sides[side] is None:
                self.sides[side] = next((name for name in chosen if name != self.sides[1 - side]), None)
        if self.sides == [None, None]:
            self.sides[0] = names[0]
        for side in range(SIDES):
            other = self.sides[1 - side]
            if other is not None and (self.sides[side] is None or self._stray == side):
                near = [row["trace"] for row in await self.store.rows("tui_diff_near", {"trace": other})]
                if near and self.sides[side] not in near:
                    self.sides[side] = near[0]
        self._stray = None

    def shown(self) -> None:
        """The pane came to the front: perhaps with other marks."""
        self._stale = self._stale or self.shell.marked != self._marked
        super().shown()

    def _fill(self) -> None:
        if self.found is None or self.asked is None:
            return
        import pyarrow as pa

        found = self.found.table
        found = found.append_column(PLACE, pa.array(range(found.num_rows), pa.int64()))
        if not self.quiet_shown:
            found = found.filter(pa.array(self.found.shown(), pa.bool_()))
        rows = ArrowRows(found)
        if self._sort is not None:
            rows = rows.sorted_by(self._sort[0], descending=self._sort[1], then=[(PLACE, "ascending")])
        table = self.query_one(Table)
        table.sort = self._sort
        table.show(rows)
        self.query_one("#sides", Static).update(self._sums(self.found, self.asked))
        self._show_row()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sides are picked and swapped where there are two; other keys act on rows, where such are shown."""
        if action in {"pick", "swap"}:
            return len(self.traces) >= SIDES
        if action in {"threshold", "unchanged"}:
            return self.found is not None and not self.has_class("-sentence")
        return super().check_action(action, parameters)

    def action_pick(self, side: int) -> None:
        """Choose a trace."""

        def take(name: str | None) -> None:
            if name is not None:
                self.sides[side], self._by_hand[side] = name, True
                self._stray = None if self._by_hand[1 - side] else 1 - side
                self.reload()

        self.shell.push_screen(PickTrace("AB"[side], self.traces, self.sides[side]), take)

    def action_swap(self) -> None:
        """A becomes B."""
        self.sides.reverse()
        self._by_hand.reverse()
        self.reload()

    def action_threshold(self, by: int) -> None:
        """A larger (1) or smaller change of a mean is still none."""
        place = THRESHOLDS.index(self.threshold) + by
        if 0 <= place < len(THRESHOLDS):
            self.threshold = THRESHOLDS[place]
            self.reload()

    def action_unchanged(self) -> None:
        """Show or hide what did not change."""
        self.quiet_shown = not self.quiet_shown
        self._fill()

    @on(Table.SortWanted)
    def _sorted(self, event: Table.SortWanted) -> None:
        self._sort = (event.key, event.descending)
        self._fill()

    @on(Table.Moved)
    def _show_row(self) -> None:
        """Below the table: what is known of the kernel under the cursor."""
        row, about = self.query_one(Table).row, Content("")
        if row is not None:
            names = dict.fromkeys(filter(None, (row["kernel_before"], row["kernel_after"])))
            facts = [f"matched by {row['matched_by']}", row["category"], row["op"]]
            if row["mean_before_ns"] is not None and row["mean_after_ns"] is not None:
                means = f"{numbers.duration(row['mean_before_ns'])} → {numbers.duration(row['mean_after_ns'])}"
                facts.append(f"mean {means}, {_change(row['own_delta_pct'])} beyond the common shift")
            if row["changed_in"] is not None:
                facts.append(f"in {row['changed_in']}")
            if row["p_value"] is not None:
                facts.append(f"p {row['p_value']:.2g} ({row['test']})")
            name, line = numbers.safe(" → ".join(names)), numbers.safe(" · ".join(filter(None, facts)))
            about = Content.assemble(Content.styled(name, "bold"), "\n", Content.styled(line, "dim"))
        self.query_one("#row", Static).update(about)

    @on(Table.Chosen)
    def _chosen(self, event: Table.Chosen) -> None:
        if (row := event.table.row) is not None:
            self.shell.show_signature(row["signature_after"] or row["signature_before"])

    def pointed(self) -> Pointed | None:
        """The kernel under the cursor in trace B, or in A where it is only there."""
        row = self.query_one(Table).row
        if row is None or self.asked is None:
            return None
        after = row["signature_after"]
        return Pointed(after or row["signature_before"], self.asked.after if after else self.asked.before)

    def command(self) -> str | None:
        """The same comparison on the command line."""
        asked = self.asked
        if asked is None:
            return None
        everything = ["--all"] if self.quiet_shown else []
        arguments = ("diff", Name(asked.before), Name(asked.after), "--threshold", f"{asked.threshold:g}%", *everything)
        return self.shell.command(*arguments, choice=Choice(asked.where))

    def copies(self) -> list[Copy]:
        """The kernel under the cursor."""
        row = self.query_one(Table).row if self.found is not None else None
        return [] if row is None else kernel_copies(row["kernel"], row["signature_after"] or row["signature_before"])

    async def export(self, path: Path) -> int:
        """All rows of the comparison, quiet ones too."""
        from kerneldb.output import Output, format_of, write

        if self.found is None:
            return 0
        reader = self.found.table.to_reader()
        output = Output(format=format_of(path) or "parquet", path=path)
        written = await asyncio.to_thread(lambda: write(reader, output))
        return written.shown

    # Texts.

    def _sums(self, found: Difference, asked: Question) -> Content:
        """The traces, their GPU time, and how many rows have which verdict."""
        colour = theme.ink(self.app, "red" if found.after_ns > found.before_ns else "green")
        shift = f"  common shift {_change(found.common_shift_pct)}" if found.common_shift_pct else ""
        parts = []
        for verdict, n in found.by_verdict.items():
            hue = HUES.get(verdict)
            styled = Content.styled(_verdict(verdict).strip(), theme.ink(self.app, hue) if hue else "")
            parts += [Content(f"{n:,} "), styled, Content("  ")]
        quiet, doubt = not all(found.shown()), found.doubt()
        # Of such a side no launch is selected, or all ran under a counter profiler.
        untimed = [side for side, total_ns in (("A", found.before_ns), ("B", found.after_ns)) if not total_ns]
        without = f"no GPU time of {' and '.join(untimed)} counts  " if untimed else ""
        before, after = numbers.safe(asked.before), numbers.safe(asked.after)
        return Content.assemble(
            Content.styled("A ", "bold"), f"{before}  ", Content.styled("→ B ", "bold"), after, "\n",
            f"GPU time {numbers.duration(found.before_ns)} → {numbers.duration(found.after_ns)}  ",
            Content.styled(f"{_signed(found.after_ns - found.before_ns)} {_change(found.delta_pct)}", f"bold {colour}"),
            Content.styled(f"{shift}  threshold {asked.threshold:g} %", "dim"), "\n",
            Content.styled(without, theme.ink(self.app, "yellow")),
            *(parts or [Content("nothing to compare")]),
            Content.styled(" (hidden: u)" if quiet and not self.quiet_shown else "", "dim"),
            "\n" + numbers.safe(doubt) if doubt else "",
        )  # fmt: skip
