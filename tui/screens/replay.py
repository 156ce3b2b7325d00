"""The screen Replay: what can be run again, the run while it goes on, and its results."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Digits, Static

from kerneldb.errors import UsageError
from kerneldb.replay.options import Options
from kerneldb.tui import numbers, replay_process, theme
from kerneldb.tui.empty_messages import why_empty
from kerneldb.tui.numbers import UNKNOWN, sparkline
from kerneldb.tui.pane import Copy, Pane
from kerneldb.tui.tasks import supersede
from kerneldb.tui.widgets.columns import Column, text
from kerneldb.tui.widgets.table import ListRows, Row, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from kerneldb.api.planning import Request


class Gauge(Vertical):
    """A title, a number, and a line of the readings so far, the latest at the right."""

    DEFAULT_CSS = """
    Gauge { height: 5; width: 1fr; padding: 0 1; }
    Gauge .gauge--title { color: $text-muted; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    Gauge Digits { height: 3; width: 1fr; }
    Gauge .gauge--line { height: 1; color: $text-accent; text-wrap: nowrap; }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._title = title
        self._readings: Sequence[float] = ()

    def compose(self) -> ComposeResult:
        """The three parts."""
        yield Static(self._title, classes="gauge--title", markup=False)
        yield Digits("")
        yield Static("", classes="gauge--line", markup=False)

    def show(self, readings: Sequence[float]) -> None:
        """Show the latest of `readings`; nothing is known where there are none."""
        self._readings = readings
        self.query_one(Digits).update(f"{readings[-1]:,.0f}" if readings else UNKNOWN)
        self._draw_line()

    def on_resize(self) -> None:
        """Readings may come before it is known how many have room."""
        self._draw_line()

    def _draw_line(self) -> None:
        width = max(self.size.width - 2, 1)
        self.query_one(".gauge--line", Static).update(sparkline(list(self._readings)[-width:]))


View = Literal["plan", "live", "results"]

VALUES: Final[dict[str, Sequence[Any]]] = {
    "share": (None, 99, 95, 90, 80, 50),
    "runs": (6, 12, 24, 50, 100),
    "cache": ("mixed", "cold", "warm"),
    "energy": (True, False),
    "device": ("cuda:0", "cuda:1", "cuda:2", "cuda:3", "cpu"),
}
"""What a key goes through, by setting."""
TOTAL: Final = "TOTAL"
BAR: Final = 30
BESIDE_BAR: Final = 40
"""Columns that the text after the bar needs."""
LAST: Final = 12
REPLACE: Final = (
    "A replay was stopped and can go on (space). A new one takes its place; what was replayed so far stays in the "
    "database. Start a new one?"
)
GAUGES: Final = (("power_w", "power in W"), ("sm_mhz", "clock in MHz"), ("temperature_c", "temperature in °C"))


_percent = partial(numbers.fixed, digits=1)


def _signed(value: float | None) -> str:
    return numbers.UNKNOWN if value is None else f"{value:+.1f}"


PLAN: Final = (
    text("category", "category", 15, hue="category"),
    text("route", "route", 10),
    Column("signatures", "signatures", 10),
    Column("launches", "launches", 9),
    Column("total_ns", "total", 9, numbers.duration),
    Column("share_pct", "%", 5, _percent),
    text("reason", "why not", 10, stretch=True, rank=1),
)
RESULTS: Final = (
    text("category", "category", 14, hue="category"),
    text("route", "route", 9),
    Column("signatures", "sigs", 5),
    Column("launches", "launches", 8, rank=2),
    Column("recorded_ns", "recorded", 9, numbers.duration),
    Column("share_pct", "%", 5, _percent, rank=3),
    Column("l0_l1_time_pct", "same %", 6, _percent),
    Column("predicted_ns", "predicted", 9, numbers.duration, rank=1),
    Column("error_pct", "error %", 7, _signed),
    Column("energy_mj", "energy", 9, numbers.energy, rank=2),
    text("reasons", "others", 8, stretch=True, rank=4),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How to replay, as the keys of the screen set it; `share` in percent of the time, None for all."""

    options: Options = dataclasses.field(default_factory=Options)
    share: int | None = None

    def arguments(self) -> list[str]:
        """The options of `kerneldb replay` that mean the same, without those that it takes anyway."""
        return [*self.options.arguments(), *([] if self.share is None else ["--until-time", f"{self.share}%"])]

    def value(self, name: str) -> Any:
        """The value of a setting in `VALUES`."""
        return self.share if name == "share" else getattr(self.options, name)

    def changed(self, name: str, value: Any) -> Settings:
        """With another value of a setting."""
        if name == "share":
            return dataclasses.replace(self, share=value)
        return dataclasses.replace(self, options=dataclasses.replace(self.options, **{name: value}))


def replayable(plan: Sequence[Row]) -> float:
    """Percent of the time that anything replays: recorded calls, inherited ones, and those that are tried."""
    return float(sum(row["replayable_pct"] for row in plan if row["category"] == TOTAL))


def how_much(plan: Sequence[Row]) -> str:
    """How much of the time is replayed, and how much of that without a recorded call."""
    total = replayable(plan)
    sums = [row for row in plan if row["category"].startswith(f"{TOTAL} ") and row["route"]]
    kinds = {row["route"]: row["replayable_pct"] for row in sums}
    parts = ", ".join(f"{numbers.percent(share)} {kind}" for kind, share in kinds.items() if share != total)
    alone = next((f", all {kind}" for kind, share in kinds.items() if share == total), "")
    return f"{numbers.percent(total)} replayable" + (alone or (f" ({parts})" if parts else ""))


class Lines(Table):
    """A table of few rows, with their sums at its end. Enter replays where they are the plan."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Replay"),
        Binding("s", "sort(True)", "Sort", show=False),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Results are not replayed."""
        return bool(super().check_action(action, parameters)) and (action != "choose" or self.id == "plan")

    def show_all(self, rows: Sequence[Row]) -> None:
        """Show `rows` in the order of `sort`; what is unknown comes last, and the sums after it."""
        sums = [row for row in rows if row["category"].startswith(TOTAL)]
        lines = [row for row in rows if row not in sums]
        if self.sort is not None:
            key, descending = self.sort
            known = [row for row in lines if row[key] is not None]
            unknown = [row for row in lines if row[key] is None]
            lines = [*sorted(known, key=lambda row: row[key], reverse=descending), *unknown]
        self.show(ListRows([*lines, *sums]))


class Live(Vertical, can_focus=True):
    """The run. It takes the keyboard, so that the keys of the screen work."""


class ReplayPane(Pane):
    """The plan of the Selection; Enter runs it in a process of its own, which writes the database."""

    TITLE = "Replay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause", tooltip="Pause, or go on"),
        Binding("x", "stop", "Stop"),
        Binding("c", "cycle('cache')", "Cache", show=False),
        Binding("g", "cycle('energy')", "Energy", show=False),
        Binding("u", "cycle('share')", "Share", show=False),
        Binding("plus,equals_sign", "runs(1)", "More runs", show=False),
        Binding("minus", "runs(-1)", "Fewer runs", show=False),
        Binding("v", "cycle('device')", "Device", show=False),
        Binding("p", "view('plan')", "Plan", show=False),
        Binding("l", "last", "Results"),
        Binding("comma", "older(1)", "Older run", show=False),
        Binding("full_stop", "older(-1)", "Newer run", show=False),
    ]
    command_of_child: Sequence[str] = replay_process.COMMAND

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.view: View = "plan"
        self.plan: list[Row] = []
        self.runs: list[Row] = []
        self.results: list[Row] = []
        self.run_place = 0
        self.progress: replay_process.Progress | None = None
        self.child: replay_process.ReplayProcess | None = None
        self.stopping = False

    def compose_content(self) -> ComposeResult:
        """What is replayed, then the plan, the run or its results, and a line about the row under the cursor."""
        yield Static("", id="head", markup=False)
        yield Lines(PLAN, id="plan")
        with Live(id="live") as live:
            live.display = False
            yield Static("", id="bar", markup=False)
            with Horizontal(id="gauges"):
                for name, title in GAUGES:
                    yield Gauge(title, id=name)
            yield Static("", id="log", markup=False)
        results = Lines(RESULTS, id="results")
        results.display = False
        yield results
        yield Static("", id="foot", markup=False)

    # Data.

    @property
    def is_running(self) -> bool:
        """Whether a replay goes on."""
        return self.child is not None

    async def load(self) -> str | None:
        """Plan the replay of the Selection. A run that goes on is left alone."""
        self.runs = await self.store.rows("tui_replay_runs")
        if self.is_running:
            self._show(self.view)
            return None
        from kerneldb.api import planning

        request = dataclasses.replace(self._request(), shown=True)
        try:
            planned = await self.store.call(lambda database: database.plan_replay(request))
        except UsageError:  # of such a request, for one reason only: nothing is selected
            return await why_empty(self.store, self.choice, wanted="calls")
        self.plan = planning.feasibility(planned.routes)
        self.query_one("#plan", Lines).show_all(self.plan)
        self._show(self.view)
        return None

    def _request(self) -> Request:
        from kerneldb.api.planning import Request

        share = self.settings.share
        until_share = None if share is None else share / 100
        return Request(self.choice.selection().where, self.choice.traces, until_share=until_share)

    def choice_changed(self) -> None:
        """Another Selection, another plan."""
        if not self.is_running:
            self.view = "plan"

    # The run.

    @on(Table.Chosen, "#plan")
    def _start_wanted(self) -> None:
        if not self.is_running and not replayable(self.plan):
            self.shell.notify("Nothing of the plan can be replayed; its last column says why not.", markup=False)
            return
        if self.is_running or not self.resumable:
            self.start(resume=False)
            return
        from kerneldb.tui.dialogs import Confirm

        self.app.push_screen(Confirm(REPLACE), lambda agreed: self.start(resume=False) if agreed else None)

    def start(self, *, resume: bool) -> None:
        """Begin a replay, or go on with the one that was stopped."""
        if self.is_running:
            return
        from kerneldb.tui.replay_child import Order

        order = Order(self.store.address, self._request(), self.settings.options, resume)
        self.child = replay_process.ReplayProcess(order, self.command_of_child)
        self.progress = replay_process.Progress()
        self.stopping = False
        self._show("live")
        self.run_worker(self._follow(self.child, self.progress), group="replay")

    async def _follow(self, child: replay_process.ReplayProcess, progress: replay_process.Progress) -> None:
        try:
            with self.shell.busy_while():
                async for event in child.events():
                    progress.take(event)
                    self._draw_live()
        finally:
            self.child = None
            child.stop()
        if progress.ended == "done" and progress.run_id is not None:
            self.runs = await self.store.rows("tui_replay_runs")
            ids = [run["run_id"] for run in self.runs]
            self.run_place = ids.index(progress.run_id) if progress.run_id in ids else 0
            await self._show_results()
        else:
            self._show("live")
        self.shell.action_reload()

    def action_stop(self) -> None:
        """End the run; what is replayed by then is kept."""
        if self.child is not None:
            self.stopping = True
            self.child.stop()
            self._draw_head()

    def action_pause(self) -> None:
        """Stop the run, or go on with the one that was stopped: results so far are in the database meanwhile."""
        if self.child is not None:
            self.action_stop()
        elif self.resumable:
            self.start(resume=True)

    @property
    def resumable(self) -> bool:
        """Whether there is a run that was stopped."""
        from kerneldb.api.resuming import Files

        return Files.beside(self.store.path).resumable

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is stopped where nothing runs, nor paused where nothing could go on; results are of some run."""
        if not super().check_action(action, parameters):
            return False
        if action == "stop":
            return self.is_running
        if action in {"last", "older"}:
            return bool(self.runs)
        if action == "pause":
            return self.is_running or self.resumable
        return True

    def busy(self) -> str | None:
        """Ask before a run is stopped."""
        if self.progress is None or not self.is_running:
            return None
        done = f"{self.progress.done} of {self.progress.total} calls"
        return f"A replay is running ({done}). Stop it and quit? kerneldb replay --resume goes on with it."

    def on_unmount(self) -> None:
        """Nobody follows the run any more."""
        if self.child is not None:
            self.child.stop()

    async def _show_results(self) -> None:
        self.results = []
        if self.runs:
            run_id = self.runs[self.run_place]["run_id"]
            self.results = await self.store.rows("replay_results", {"run_ids": [run_id]})
            self.query_one("#results", Lines).show_all(self.results)
        self._show("results")

    # Keys.

    def action_cycle(self, what: str) -> None:
        """The next cache state, device or share of time; energy on or off."""
        values = VALUES[what]
        self._set(what, values[(values.index(self.settings.value(what)) + 1) % len(values)])

    def action_runs(self, by: int) -> None:
        """More (1) or fewer timed runs of a call."""
        place = VALUES["runs"].index(self.settings.options.runs) + by
        self._set("runs", VALUES["runs"][min(max(place, 0), len(VALUES["runs"]) - 1)])

    def _set(self, name: str, value: Any) -> None:
        if self.is_running:
            return
        self.settings = self.settings.changed(name, value)
        self.view = "plan"
        self.progress = None  # its messages were about other settings
        if name == "share":
            self.reload()
        else:
            self._show("plan")

    def action_view(self, view: View) -> None:
        """The plan, the run or the results."""
        self._show(view)

    def action_last(self) -> None:
        """The results of a run: at first the latest."""
        supersede(self, "results", self._show_results)

    def action_older(self, by: int) -> None:
        """The run before (1) or after (-1) the one that is shown."""
        if self.view == "results":
            self.run_place = min(max(self.run_place + by, 0), max(len(self.runs) - 1, 0))
            self.action_last()

    def on_cancel(self) -> bool:
        """Back to the plan, or to the run that goes on."""
        home: View = "live" if self.is_running else "plan"
        if self.state == "ready" and self.view != home:
            self._show(home)
            return True
        return False

    def command(self) -> str | None:
        """The same run on the command line."""
        return self.shell.command("replay", *self.settings.arguments())

    def copies(self) -> list[Copy]:
        """The id of the run that is shown."""
        if self.view != "results" or not self.runs:
            return []
        return [Copy("r", "id of the run", self.runs[self.run_place]["run_id"])]

    # Drawing.

    def _show(self, view: View) -> None:
        self.view = view
        focused = self.screen.focused
        self.query_one(f"#{view}").display = True
        if focused is None or self in focused.ancestors:
            self.focus_default()
        for name in ("plan", "live", "results"):
            self.query_one(f"#{name}").display = name == view
        if view == "live":
            self._draw_live()
        self._draw_head()
        self._draw_foot()
        self.refresh_bindings()

    def on_resize(self) -> None:
        """The bar has another width."""
        self.call_after_refresh(self._draw_live)

    def focus_default(self) -> None:
        """What is shown, where this screen is the one in front."""
        if self.shell.pane is self:
            shown = self if self.has_class("-sentence") else self.query_one(f"#{self.view}")
            shown.focus(scroll_visible=False)

    @on(Table.Moved)
    def _moved(self) -> None:
        self._draw_foot()

    @on(Table.SortWanted)
    def _sorted(self, event: Table.SortWanted) -> None:
        table = event.table
        table.sort = (event.key, event.descending)
        if isinstance(table, Lines):
            table.show_all(self.plan if table.id == "plan" else self.results)

    def _draw_foot(self) -> None:
        reason = ""
        if self.view != "live":
            row = self.query_one(f"#{self.view}", Table).row or {}
            energy = row.get("energy_reasons")
            reason = row.get("reason") or row.get("reasons") or (f"energy: {energy}" if energy else "")
        self.query_one("#foot", Static).update(numbers.safe(reason))

    def _draw_head(self) -> None:
        lines = [self._title(), self._state()]
        if self.view != "results":  # the settings are those of the next run
            one, until = self.settings.options, self.settings.share
            share = "all time" if until is None else f"{until} % of time"
            facts = f"{one.device} (v) · {one.cache} cache (c) · {one.runs} runs (+ -) · {share} (u)"
            lines.insert(1, Content.styled(f"{facts} · energy {'on' if one.energy else 'off'} (g)", "dim"))
        self.query_one("#head", Static).update(Content("\n").join(lines))

    def _title(self) -> Content:
        if self.view == "results" and self.runs:
            run = self.runs[self.run_place]
            facts = [f"run {self.run_place + 1} of {len(self.runs)}", run["gpu"] or run["device"] or ""]
            facts += [f"cache {run['cache']}", str(run["started"])]
            where = numbers.safe(" · ".join(filter(None, facts)))
            return Content.assemble(Content.styled(numbers.safe(f"Results of {run['run_id']}  "), "bold"), where)
        total = next((row for row in self.plan if row["category"] == TOTAL), None)
        if total is None:
            return Content("")
        signatures = numbers.several(total["signatures"], "signature")
        launches = numbers.several(total["launches"], "launch", "launches")
        # What is cut in a narrow terminal stands elsewhere, too.
        text = f"{how_much(self.plan)} of {numbers.duration(total['total_ns'])}, {launches}, {signatures}"
        return Content.assemble(Content.styled("Replay  ", "bold"), text)

    def _state(self) -> Content:
        progress = self.progress
        if self.is_running:
            text = "stopping…" if self.stopping else "running; x stops, space pauses"
            return Content.styled(text, theme.ink(self.app, "yellow"))
        stopped = "; space goes on with the one that was stopped" if self.resumable else ""
        if progress is not None and progress.ended == "failed" and self.view != "results":
            keys = "enter replays" if self.view == "plan" else "p shows the plan"
            return Content.styled(numbers.safe(f"{progress.message}; {keys}{stopped}"), theme.ink(self.app, "red"))
        if self.view != "plan":
            return Content.styled(f"p shows the plan{stopped}", "dim")
        last = "; l shows the last results" if self.runs else ""
        enter = "enter replays" if replayable(self.plan) else "nothing of it can be replayed: see why not"
        return Content.styled(f"{enter}{stopped}{last}", "dim")

    def _draw_live(self) -> None:
        progress = self.progress
        if progress is None or self.view != "live":
            return
        share = progress.done / progress.total if progress.total else 0.0
        width = min(max(self.size.width - BESIDE_BAR, 4), BAR)
        left = "" if progress.eta_s is None or progress.ended else f"  {numbers.duration(1e9 * progress.eta_s)} left"
        grades = "  ".join(f"{n} × {grade}" for grade, n in sorted(progress.grades.items()))
        stage = progress.ended or progress.stage
        bar = Content.styled(numbers.bar(share, width), theme.ink(self.app, "blue"))
        text = f" {progress.done:,} of {progress.total:,} calls  {stage}{left}\n{grades}"
        self.query_one("#bar", Static).update(Content.assemble(bar, text))
        for name, _ in GAUGES:
            self.query_one(f"#{name}", Gauge).show(list(progress.readings.get(name, ())))
        self.query_one("#log", Static).update(self._log(progress))
        self._draw_head()

    def _log(self, progress: replay_process.Progress) -> Content:
        """The kernel that is replayed, what failed, and what did not replay the same, latest first."""
        red = theme.ink(self.app, "red")
        lines = []
        if progress.kernel:
            now = Content.styled("last " if progress.ended else "now ", "dim")
            lines.append(Content.assemble(now, numbers.safe(progress.kernel)))
        if progress.message:
            lines.append(Content.styled(numbers.safe(progress.message), red if progress.ended == "failed" else ""))
        lines += [
            Content.styled(numbers.safe(f"a worker ended: {reason}"), red) for reason in progress.deaths[-LAST:][::-1]
        ]
        lines += [Content(numbers.safe(f"{grade}  {kernel}")) for grade, kernel in progress.bad[-LAST:][::-1]]
        return Content("\n").join(lines)
