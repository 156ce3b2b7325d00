"""The base of all screens: a pane that asks the store, and shows data, a sentence why there are none, or an error."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from textual.binding import Binding
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from kerneldb.output.text import harmless
from kerneldb.tui.model import equals
from kerneldb.tui.tasks import guarded, supersede

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Choice, Pointed
    from kerneldb.tui.store import Store

State = Literal["loading", "ready", "empty", "error"]


CALL: Final = Binding(
    "c", "app.call", "Call", tooltip="Go to the call that launched it; of a kernel, its longest launch"
)
"""The key of screens on which the cursor may be on a kernel: they say on which by `pointed`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Copy:
    """An entry of the copy menu: `y`, then `key`, copies `text`; with `more`, these are offered instead.

    Only with `lines` the text may have several: a name that has would run what it holds where it is pasted.
    """

    key: str
    label: str
    text: str
    more: tuple[Copy, ...] = ()
    lines: bool = False

    @property
    def given(self) -> str:
        """What is copied."""
        return self.text if self.lines else self.text.replace("\n", "\\n")


def kernel_copies(name: str | None, signature_id: str) -> list[Copy]:
    """Entries of the copy menu about a kernel: its name, and the condition that its launches meet."""
    where = equals("signature_id", signature_id)
    return [Copy("n", "kernel name", name or ""), Copy("r", "WHERE of this kernel", where, lines=True)]


def _harmless(text: str) -> str:
    """As `harmless`, but for blanks that keep words together, which messages use."""
    return "\xa0".join(map(harmless, text.split("\xa0")))


class Pane(Widget):
    """A screen. Subclasses give `compose_content` and `load`; all else has a default.

    `load` runs in a task of its own whenever the pane is shown and what it shows is out of date; a newer one cancels
    it. It awaits the store and fills widgets. It returns None, or a sentence where there is nothing to show. A
    KerneldbError that it, or any other task of the pane, raises is shown; what was loaded before stays on the screen.
    """

    TITLE: ClassVar[str] = ""
    """The name of the screen in tabs, palette and messages."""

    EXPORTS: ClassVar[str] = "the selected launches: all that match, not only what is visible"
    """What `export` writes."""

    KEYS_NEED_CONTENT: ClassVar[bool] = True
    """Whether the keys of the screen do nothing while a sentence is shown in place of its content."""

    def __init__(self) -> None:
        super().__init__()
        self.state: State = "loading"
        self._stale = True
        self._loaded = False
        self._composed = False
        self._failed_in = ""

    # What subclasses give.

    def compose_content(self) -> ComposeResult:
        """The widgets that show data."""
        raise NotImplementedError

    async def load(self) -> str | None:
        """Ask the store and fill the widgets; returns a sentence where there is nothing to show."""
        raise NotImplementedError

    def choice_changed(self) -> None:
        """The Selection is another one now; `load` follows by itself when the pane is on screen."""

    def pointed(self) -> Pointed | None:
        """The kernel or the launch under the cursor; None where it is on none."""
        return None

    def command(self) -> str | None:
        """The shell line that prints what is shown, for `^y`; None where there is none."""
        return self.shell.command("top")

    def copies(self) -> list[Copy]:
        """Entries of the copy menu about what the cursor is on; those without a text are left out."""
        return []

    def nothing_to_export(self) -> str:
        """Why `export` would write nothing; empty where it writes something."""
        return ""

    async def export(self, path: Path) -> int:
        """Write all that is selected (not only what is visible) to `path`; returns the number of rows.

        By default the selected launches, as `kerneldb db export` writes them.
        """
        choice = self.choice
        return await self.store.call(
            lambda database: database.export(path, where=choice.selection().where, traces=choice.traces)
        )

    def on_cancel(self) -> bool:
        """Escape was pressed: close what is open in the pane. False where there is nothing to close."""
        return False

    def busy(self) -> str | None:
        """A question to ask before the program ends, where something runs that would be lost."""
        return None

    def focus_default(self) -> None:
        """Give the keyboard to the widget that a user expects to have it: by default the first that takes it."""
        for widget in self.query("*"):
            if widget.focusable and not _hidden(widget):
                widget.focus(scroll_visible=False)
                return
        self.focus(scroll_visible=False)

    def prefetch(self, shell: KerneldbApp) -> None:
        """Begin to ask: the pane is about to be mounted, or nothing else is going on."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without content, keys do what they do on every screen, and the line of keys lists no others."""
        own = {binding.action.partition("(")[0] for binding in self.BINDINGS if isinstance(binding, Binding)}
        if self.KEYS_NEED_CONTENT and action in own and self.has_class("-sentence"):
            return False
        return super().check_action(action, parameters)

    # What subclasses use.

    @property
    def shell(self) -> KerneldbApp:
        """The application, with its own type."""
        return cast("KerneldbApp", self.app)

    @property
    def store(self) -> Store:
        """Questions to the database."""
        return self.shell.store

    @property
    def choice(self) -> Choice:
        """What all screens look at."""
        return self.shell.choice

    def reload(self) -> None:
        """Load again now (where the pane is on screen) or when it is shown next."""
        self._stale = True
        if self.display and self._composed:
            self._stale = False
            supersede(self, "load", self._run)

    @property
    def composed(self) -> bool:
        """Whether its widgets are there."""
        return self._composed

    @property
    def leaving(self) -> bool:
        """Whether the pane is being taken down, or the whole application."""
        return not self.is_attached or self._closing or self.shell.leaving

    def run_worker(self, work: Any, name: str | None = "", group: str = "default", *more: Any, **options: Any) -> Any:
        """As Textual has it, but for a KerneldbError: it is shown."""
        return super().run_worker(cast("Any", partial(guarded, self, group, work)), name, group, *more, **options)

    def ready(self) -> None:
        """There is something to see already, though `load` goes on asking for more."""
        self._loaded = True
        self.show_state("ready")

    # How it works.

    def compose(self) -> ComposeResult:
        """The content, and a sentence in its place."""
        yield Static("", classes="pane--note", markup=False)
        with Vertical(classes="pane--content"):
            yield from self.compose_content()
        yield Static("", classes="pane--sentence", markup=False)

    def on_mount(self) -> None:
        """The pane is there for the first time."""
        if self.leaving:
            return
        self._composed = True
        self.shown()
        if self.shell.pane is self and not self.shell.editing:
            self.focus_default()

    def shown(self) -> None:
        """The pane came to the front."""
        if self._stale:
            self.reload()

    async def _run(self) -> None:
        if self.leaving:
            return
        with self.shell.busy_while():
            sentence = await self.load()
        self._loaded = self._loaded or sentence is None
        self.show_state("ready" if sentence is None else "empty", sentence or "")

    def worked(self, group: str) -> None:
        """A task of `group` ended well: an error of an earlier one is no longer shown."""
        if self.state == "error" and self._failed_in == group and self._loaded:
            self.show_state("ready")

    def failed(self, group: str, message: str) -> None:
        """Say what went wrong in a task of `group`: below what was loaded before, or in its place."""
        self._failed_in = group
        if self._loaded and self.state in {"ready", "error"}:
            self.state = "error"
            self.query_one(".pane--note", Static).update(_harmless(message))
            self.add_class("-note")
        else:
            self.show_state("error", message)

    def show_state(self, state: State, sentence: str = "") -> None:
        """Show the content (`ready`), or a sentence in its place."""
        self.state = state
        self.remove_class("-note")
        self.set_class(state != "ready", "-sentence")
        # With nothing else to focus, the pane takes the keys, so that its own ones work.
        self.can_focus = state != "ready"
        self.query_one(".pane--sentence", Static).update(_harmless(sentence))
        self.refresh_bindings()
        self.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """Focus something else where what had the keyboard is hidden now."""
        focused = self.screen.focused
        if self.display and (focused is None or not focused.focusable or _hidden(focused)):
            self.focus_default()


def _hidden(widget: Widget) -> bool:
    return not all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
