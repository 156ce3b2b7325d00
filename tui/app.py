"""The application: one Selection, one store, screens that are made when they are first shown."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import KeyPanel

from kerneldb.errors import KerneldbError, UsageError
from kerneldb.output.text import harmless
from kerneldb.tui import numbers, signals, theme
from kerneldb.tui.early_keys import WHERE_KEYS, Typing
from kerneldb.tui.model import LEVELS, Choice, History, command_line
from kerneldb.tui.saved_history import SavedHistory
from kerneldb.tui.screens import BY_NAME, PLACES
from kerneldb.tui.store import READY, Condition, Store
from kerneldb.tui.tasks import guarded, supersede
from kerneldb.tui.widgets.header import Facts, Keys, Status, Tabs, facts_of
from kerneldb.tui.widgets.where_bar import WhereBar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from textual.app import ComposeResult, SystemCommand
    from textual.filter import LineFilter
    from textual.screen import Screen
    from textual.timer import Timer

    from kerneldb.tui.model import Pointed
    from kerneldb.tui.pane import Pane

WATCH_S: Final = 1.0
"""How often the file is looked at for changes."""

REST_S: Final = 0.15
"""How long no screen asks anything before screens prefetch; the file is still attached then."""
PREFETCHED: Final = ("timeline",)

TURN_S: Final = 0.0005
"""How long a thread keeps the interpreter. Python's 5 ms make a question wait for widgets at each of its steps."""

LONGEST_TOLD: Final = 2_000
"""Characters of a message over the screen."""

NARROW, WIDE = 100, 140
TALL: Final = 30


def listed(
    keys: str, action: str, title: str, about: str, written: str | None = None, *, show: bool = False
) -> Binding:
    """Keys of all screens for what the palette lists, too; `written` is how the first of them is written."""
    return Binding(keys, action, title, show=show, key_display=written, tooltip=about)


class KerneldbApp(Typing):
    """The terminal interface on one database file.

    `choice` says what is looked at, `store` answers, `signature` is the kernel under the cursor (or None), `time_ns` a
    time that the timeline is to go to, `pointed` a kernel to whose call, `marked` are traces marked with space (the
    first is the one that `d` compares with). `saved` is what outlasts the session.
    """

    CSS_PATH = "kerneldb.tcss"
    TITLE = "kerneldb"
    ENABLE_COMMAND_PALETTE = True
    AUTO_FOCUS = None
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-medium"), (WIDE, "-wide")]  # noqa: RUF012 (declared by Textual)
    VERTICAL_BREAKPOINTS = [(0, "-low"), (TALL, "-tall")]  # noqa: RUF012 (declared by Textual)
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(place.key, f"show({place.name!r})", place.title, show=False) for place in PLACES),
        listed(",".join(WHERE_KEYS), "where", "Where", "Restrict all screens by an SQL condition", "/", show=True),
        listed("question_mark,f1", "help", "Keys", "All keys of what has the focus", "?", show=True),
        Binding("ctrl+p", "command_palette", "Palette", show=False),
        listed("colon", "go_to", "Go to…", "A signature by id, a trace, a time, or a kernel by its name", ":"),
        listed("left_square_bracket", "history(-1)", "Previous Selection", "Step back among the Selections", "["),
        listed("right_square_bracket", "history(1)", "Next Selection", "Step forth among the Selections", "]"),
        listed("y,f6", "copy_menu", "Copy…", "What the cursor is on, the WHERE text, or the command"),
        listed("ctrl+y", "copy_command", "Copy as command", "The kerneldb line that prints what is shown"),
        listed("e,f4", "export", "Export…", "Write all selected launches to a file"),
        listed("o", "open", "Open…", "Another database, or traces to read into this one"),
        listed("d", "diff", "Diff with the marked trace", "Compare two traces"),
        Binding("t", "show('timeline')", "Timeline", show=False),
        Binding("r", "show('replay')", "Replay", show=False),
        Binding("ctrl+e", "show('sql')", "SQL", show=False),
        listed("z", "zoom", "Maximise", "Give the screen the whole terminal"),
        Binding("pagedown", "keys_panel(1)", "Scroll keys", key_display="pgdn", priority=True),
        Binding("pageup", "keys_panel(-1)", "Scroll keys up", show=False, priority=True),
        listed("f5", "reload", "Reload", "Ask everything again"),
        listed("f12", "facts", "About this session", "Versions, file and terminal, for a report of a problem"),
        Binding("escape", "leave_off", "Back", show=False),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False),
        listed("q", "leave", "Quit", "End the program", show=True),
    ]

    def __init__(
        self,
        source: str | Path,
        choice: Choice | None = None,
        *,
        first: str = "overview",
        watch: bool = True,
        saved: SavedHistory | None = None,
    ) -> None:
        super().__init__(ansi_color=theme.terminal_colours())
        self.saved = saved or SavedHistory()
        self.store = Store(source, self._condition_changed)
        self.history = History(choice or Choice())
        self.signature: str | None = None
        self.time_ns: int | None = None
        self.pointed: Pointed | None = None
        self.marked: tuple[str, ...] = ()
        self._first = first
        self._watch = watch
        self._busy = 0
        self._panes: dict[str, Pane] = {}
        self._made: dict[str, Pane] = {}
        self._rest: Timer | None = None

    # What screens use.

    @property
    def choice(self) -> Choice:
        """What all screens look at."""
        return self.history.current

    @property
    def pane(self) -> Pane:
        """The screen in front."""
        return self._panes[self.query_one(Tabs).active]

    def choose(self, **changes: Any) -> None:
        """Look at something else: `where`, `traces` and `level` of `Choice`. Nothing happens where the text is bad."""
        supersede(self, "choose", self._choose, self.choice.changed(**changes))

    def narrow(self, condition: str) -> None:
        """Restrict the Selection further, by one SQL condition."""
        self.choose(where=self.choice.narrowed(condition).where)

    def command(self, *arguments: str, choice: Choice | None = None) -> str:
        """`kerneldb --db FILE ARGUMENTS --where … --trace …`, for a shell; `choice` None means the current one."""
        return command_line(self.store.title, arguments, choice or self.choice)

    def shown_command(self) -> str:
        """The line that prints what the screen in front shows."""
        return (self.pane.command() if self.pane.composed else None) or self.command("top")

    def show(self, name: str) -> None:
        """Bring the screen `name` (see `kerneldb.tui.screens`) to the front."""
        pane = self._panes.get(name)
        made = pane is None
        if self.editing or made:  # until the new screen takes the keyboard, keys are not for the one that is left
            self.screen.set_focus(None)
        if pane is None:
            pane = self._panes[name] = self._make(name)
            del self._made[name]
            pane.id = f"pane-{name}"
            pane.prefetch(self)
        for other in self._panes.values():
            other.display = other is pane
        self.query_one(Tabs).active = name
        if made:
            self.query_one("#panes").mount(pane)
        elif pane.composed:
            pane.shown()
            pane.focus_default()

    def show_signature(self, signature_id: str) -> None:
        """Show everything about one kernel signature."""
        self.signature = signature_id
        if "kernel" in self._panes:
            self._panes["kernel"].reload()
        self.show("kernel")

    @contextlib.contextmanager
    def busy_while(self) -> Iterator[None]:
        """The status line says that the database is asked while any such block runs."""
        self._busy_changed(+1)
        try:
            yield
        finally:
            self._busy_changed(-1)

    def _busy_changed(self, by: int) -> None:
        self._busy += by
        if not self.leaving:
            self.query_one(Status).asking = self._busy > 0
            if self._rest is not None:
                self._rest.stop()
            if self._watch and not self._busy:
                self._rest = self.set_timer(REST_S, self._prefetch)

    @property
    def leaving(self) -> bool:
        """Whether the program ends, or has not begun."""
        return self._exit or not self.is_running

    def run_worker(self, work: Any, name: str | None = "", group: str = "default", *more: Any, **options: Any) -> Any:
        """As Textual has it, but for a KerneldbError: it is shown."""
        return super().run_worker(cast("Any", partial(guarded, self, group, work)), name, group, *more, **options)

    def failed(self, group: str, message: str) -> None:  # noqa: ARG002 (of all tasks alike)
        """Say what went wrong in a task of the application itself."""
        self.notify(message, severity="error", markup=False)

    def worked(self, group: str) -> None:
        """A task of the application itself ended well."""

    def _focus_pane(self) -> None:
        if self.pane.composed:
            self.pane.focus_default()
        else:
            self.screen.set_focus(None)  # it takes the keyboard as soon as it is there

    def _make(self, name: str) -> Pane:
        if name not in self._made:
            self._made[name] = BY_NAME[name].make()
        return self._made[name]

    def _prefetch(self) -> None:
        """Nothing is being asked: let screens prefetch what takes longest."""
        for name in PREFETCHED:
            pane = self._panes[name] if name in self._panes else self._make(name)
            if pane is not self.pane and not self.store.waiting:
                pane.prefetch(self)

    @property
    def editing(self) -> bool:
        """Whether a condition is being written."""
        return self.query_one(WhereBar).editing

    # How it works.

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and one that keeps control characters of foreign texts from the terminal."""
        return [*super().get_line_filters(), theme.CONTROL_CHARACTERS]

    def compose(self) -> ComposeResult:
        """Screens and Selection on top, the screen, the keys."""
        yield Tabs()
        yield Status(self.store.path.name)
        yield WhereBar()
        yield Container(id="panes")
        yield Keys()

    def on_mount(self) -> None:
        """Show the first screen, and look at the file from time to time."""
        sys.setswitchinterval(TURN_S)
        # After `fg` the terminal is empty, and Textual draws what changes only.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self._accept()
        if self.store.path.exists() and not self.store.is_lake:
            self.saved.add("files", str(self.store.path.absolute()))
        self.show(self._first)
        self._refresh_status()
        if not self.choice.everything:
            self.run_worker(self._check_first(), group="choose")
        self.run_worker(self._learn_words(), group="words")
        if self._watch:
            self.set_interval(WATCH_S, self._look)
        if not self.is_headless:
            leave = partial(self.exit, return_code=signals.HANGUP_EXIT)
            loop = asyncio.get_running_loop()
            signals.watch_terminal(partial(loop.call_soon_threadsafe, leave), lambda: self._exit)
            signals.handle_sigterm(loop, partial(self.exit, return_code=signals.SIGTERM_EXIT))

    def on_resize(self) -> None:
        """Draw everything: a terminal that was small for a moment has lost what Textual takes to be there still."""
        self.refresh()

    def on_unmount(self) -> None:
        """Take no more questions."""
        self.store.close()

    async def _check_first(self) -> None:
        """Look at everything where what was asked for on the command line does not work, and say why."""
        asked = self.choice
        try:
            await self._facts(asked)
        except UsageError as error:
            self.history = History(Choice(level=asked.level))
            self._refresh_status()
            self._chosen()
            self.query_one(WhereBar).refuse(asked.where, str(error))
        except KerneldbError:
            return  # the screen shows it

    async def _choose(self, choice: Choice) -> None:
        bar = self.query_one(WhereBar)
        status = self.query_one(Status)
        same = choice.changed(level=self.choice.level) == self.choice
        with self.busy_while():
            try:
                facts = status.facts if same else await self._facts(choice)
            except KerneldbError as error:
                bar.refuse(choice.where, str(error))
                return
        self.history.add(choice)
        self.saved.add("where", choice.where)
        if not same:
            self.workers.cancel_group(self, "status")
            status.choice, status.facts = choice, facts
        self._chosen()

    async def _facts(self, choice: Choice) -> Facts:
        """The status of `choice`. A condition that binds may still fail on single launches, so each is checked."""
        await self.store.check(choice.selection())
        return await facts_of(self.store, choice)

    def _chosen(self) -> None:
        self._accept()
        for pane in self._panes.values():
            pane.choice_changed()
            pane.reload()

    def _accept(self) -> None:
        """Show the condition in the bar, whose history are those that were used before."""
        bar = self.query_one(WhereBar)
        bar.accept(self.choice.where)
        bar.line.past = list(dict.fromkeys([*self.history.texts(), *self.saved.texts("where")]))

    async def _count(self) -> None:
        """Fill the status line: what is matched of what there is."""
        status = self.query_one(Status)
        status.choice = self.choice
        try:
            status.facts = await facts_of(self.store, self.choice)
        except KerneldbError as error:
            status.facts = Facts(problem=str(error).splitlines()[0])

    async def _learn_words(self) -> None:
        """What the WHERE bar completes; then the code of the screens that are asked for ahead."""
        with contextlib.suppress(KerneldbError):
            self.query_one(WhereBar).suggester.words = await self.store.words()
        for name in PREFETCHED:
            await asyncio.to_thread(import_module, BY_NAME[name].module)

    def _refresh_status(self) -> None:
        supersede(self, "status", self._count)

    def _condition_changed(self, condition: Condition) -> None:
        if not self.leaving:
            self.query_one(Status).condition = condition

    def _look(self) -> None:
        """Reload when the file changed: `kerneldb ingest` in the next window shows here."""
        if self.store.changed() and self.store.path.exists():
            self.action_reload()

    @on(WhereBar.Given)
    def _given(self, event: WhereBar.Given) -> None:
        self.choose(where=event.text)
        self._focus_pane()

    # Keys.

    def action_show(self, name: str) -> None:
        """Show a screen."""
        self.show(name)

    def action_reload(self) -> None:
        """Ask everything again."""
        self.store.forget()
        self._refresh_status()
        for pane in self._panes.values():
            pane.reload()

    def action_history(self, steps: int) -> None:
        """Go back or forth among the Selections of this session."""
        before = self.choice
        if self.history.step(steps) != before:
            self._refresh_status()
            self._chosen()

    def action_level(self, by: int = 1) -> None:
        """The next (1) or previous (-1) level of lists: operator, kernel, signature, launch."""
        self.choose(level=LEVELS[(LEVELS.index(self.choice.level) + by) % len(LEVELS)])

    async def action_help(self) -> None:
        """Show or hide all keys of the focused widget."""
        if panel := self.screen.query("HelpPanel"):
            await panel.remove()
        else:
            self.action_show_help_panel()
        self.refresh_bindings()

    def action_keys_panel(self, pages: int) -> None:
        """Scroll the panel of keys by a page."""
        for panel in self.screen.query(KeyPanel):  # none yet where it is just opened
            panel.scroll_relative(y=pages * max(panel.size.height - 1, 1), animate=False)

    @property
    def _is_hidden(self) -> bool:
        """Whether the screen in front shows a sentence in place of what it showed before, or nothing yet."""
        pane = next((one for one in self._panes.values() if one.display), None)
        return pane is None or not pane.composed or pane.has_class("-sentence")

    @property
    def _has_help(self) -> bool:
        """Whether the panel of keys is open. Asked for each key of the footer: all widgets are not gone through.

        By its name: the module of its class loads what reads Markdown.
        """
        return any(type(widget).__name__ == "HelpPanel" for widget in self.screen.children)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The panel of keys takes its keys while it is open, else they are the screen's; what is hidden has no call."""
        if action == "keys_panel":
            return bool(self.screen_stack and self._has_help)
        if action == "call":
            return not self._is_hidden
        return super().check_action(action, parameters)

    async def action_leave_off(self) -> None:
        """Close what is open: help, a text in the bar that is written or was refused, a pane's own; else step back."""
        bar = self.query_one(WhereBar)
        if self._has_help:
            await self.action_help()
        elif bar.editing or bar.has_class("-bad"):
            editing = bar.editing
            bar.leave()
            if editing:
                self._focus_pane()
        elif not (self.pane.composed and self.pane.on_cancel()):
            self.action_history(-1)

    def action_command_palette(self) -> None:
        """Every action by its name."""
        from kerneldb.tui.commands import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_copy_command(self) -> None:
        """Copy the shell line that prints what is shown."""
        self.copy(self.shown_command())

    def copy_to_clipboard(self, text: str) -> None:
        """As in Textual, for all that is copied anywhere: what is pasted into a terminal must not drive it."""
        super().copy_to_clipboard(harmless(text))

    def copy(self, text: str, said: str = "") -> None:
        """Put `text` on the clipboard of the terminal (OSC 52), and say so: by `said`, or with the text."""
        if len(text) > numbers.LONGEST_COPIED:
            why = f"{len(text):,} characters are more than a terminal takes; e writes rows to a file"
            self.notify(why, title="Not copied", severity="warning", markup=False)
            return
        self.copy_to_clipboard(text)
        self.notify(said or text, title="Copied", markup=False)

    def notify(self, message: str, *, markup: bool = False, **options: Any) -> None:  # noqa: ARG002 (for all are texts)
        """As in Textual, but without markup, and for what is much longer than a screen, which takes long to lay out."""
        super().notify(numbers.first_of(message, LONGEST_TOLD), markup=False, **options)

    def action_copy_menu(self) -> None:
        """Choose what to copy."""
        from kerneldb.tui.commands import copies
        from kerneldb.tui.dialogs import CopyMenu

        self.push_screen(CopyMenu(copies(self)), lambda text: self.copy(text) if text else None)

    async def action_export(self) -> None:
        """Write all that is selected to a file."""
        from kerneldb.tui.commands import export
        from kerneldb.tui.dialogs import AskPath

        def chosen(path: Path | None) -> None:
            if path is not None:
                self.run_worker(export(self, path), group="export")

        if nothing := self.pane.nothing_to_export():
            self.notify(nothing, title="Export", severity="warning", markup=False)
            await self.let_go()
            return
        self.push_screen(AskPath(self.store.path.parent, self.pane.EXPORTS), chosen)

    def action_open(self) -> None:
        """Open another database, or read traces into this one."""
        from kerneldb.tui.dialogs import AskOpen, Ingesting, is_database

        def chosen(path: Path | None) -> None:
            if path is None:
                return
            if not is_database(path):
                self.push_screen(Ingesting(str(self.store.source), path), lambda _: self.action_reload())
            elif any(pane.busy() for pane in self._panes.values()):
                self.notify("A replay is running; stop it first.", title="Not opened", severity="error")
            else:
                supersede(self, "choose", self._switch, path)

        self.push_screen(AskOpen(self.saved.texts("files")), chosen)

    async def _switch(self, path: Path) -> None:
        """Look at another file, from the beginning."""
        name = self.query_one(Tabs).active
        await self.query_one("#panes").remove_children()
        self._panes.clear()
        self._made.clear()
        self.store.close()
        self.store = Store(path, self._condition_changed)
        self.history, self.signature, self.marked = History(Choice(level=self.choice.level)), None, ()
        self.saved.add("files", str(path.absolute()))
        self.query_one(Status).rename(path.name)
        self._condition_changed(READY)
        self._accept()
        self.show(name)
        self._refresh_status()
        self.run_worker(self._learn_words(), group="words")

    def action_go_to(self) -> None:
        """Go to a trace, a kernel id, a time of the timeline, or kernels by name."""
        from kerneldb.tui.commands import go_to
        from kerneldb.tui.dialogs import AskText

        def entered(text: str | None) -> None:
            if text:
                supersede(self, "choose", go_to, self, text)

        self.push_screen(AskText("Go to", "signature id, trace, time (12.5 ms), or words of a kernel name"), entered)

    def action_clear(self) -> None:
        """Look at everything again."""
        self.choose(where="", traces=())

    def action_diff(self) -> None:
        """Compare with the marked trace."""
        self.show("diff")

    def action_call(self) -> None:
        """Go to the call that launched what the cursor is on."""
        self.pointed = None if self._is_hidden else self.pane.pointed()
        if self.pointed is None:
            self.notify("No kernel and no launch is under the cursor.", markup=False)
        else:
            self.show("timeline")

    def action_zoom(self) -> None:
        """Let the screen have the whole terminal, or give the rest its place again."""
        self.screen.toggle_class("-zoomed")

    def action_facts(self) -> None:
        """Versions, file and terminal, to be copied into a report of a problem."""
        from kerneldb.tui.commands import session_facts
        from kerneldb.tui.dialogs import Page

        self.push_screen(Page("About this session", session_facts(self)))

    def action_leave(self) -> None:
        """End the program; asks first where something runs."""
        from kerneldb.tui.dialogs import Confirm

        questions = [question for pane in self._panes.values() if (question := pane.busy())]
        if not questions:
            self.exit()
        elif not isinstance(self.screen, Confirm):
            self.push_screen(Confirm(questions[0]), lambda agreed: self.exit() if agreed else None)

    async def action_quit(self) -> None:
        """Textual's own ^q, which works in every dialog, loses no replay either."""
        self.action_leave()

    def action_suspend_process(self) -> None:
        """Back to the shell until `fg`. A process that is stopped must not hold the file: writers would wait for it."""
        self.store.let_go()
        if self.store.waiting:
            self.notify("The database is being asked; ^z again when it has answered.", title="Not suspended")
        else:
            super().action_suspend_process()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002 (declared by Textual)
        """The palette: screens, actions with their keys, themes."""
        from kerneldb.tui.commands import commands

        yield from commands(self)
