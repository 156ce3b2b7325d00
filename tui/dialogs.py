"""Windows over a screen: lists, the copy menu, questions, a page of text, opening another database, reading traces."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from rich.segment import Segment
from textual import on
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input, OptionList, SelectionList, Static

from kerneldb.replay import processes
from kerneldb.tui.early_keys import Typing
from kerneldb.tui.numbers import first_of, fit, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.pane import Copy


PREVIEW: Final = 48
LONGEST: Final = 100_000
"""Characters of a page that are shown."""
FORMATS: Final = (".parquet", ".csv", ".json", ".ndjson", ".arrow", ".txt")

Answer = TypeVar("Answer")


class WindowBase:
    """What windows share: each gets the keys that were typed before it had the keyboard, and closes once.

    Keys that were typed after the one that closes it may still come to it. Not a widget itself, for styles come from
    the first base that is one.
    """

    _was_dismissed = False

    async def on_descendant_focus(self) -> None:
        """The window has the keyboard: keys that came before are its own."""
        app = cast("ModalScreen[Any]", self).app
        if isinstance(app, Typing):
            await app.let_go()

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close with an answer, unless it has one."""
        if self._was_dismissed:
            return AwaitComplete()
        self._was_dismissed = True
        closed: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return closed


class Window(WindowBase, ModalScreen[Answer]):
    """A box in the middle; Escape closes it without an answer."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]

    HINT: ClassVar[str] = ""
    """Keys that are hard to guess, on the frame: there they are seen however little of the content fits."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """The box with what it holds."""
        with Vertical() as box:
            box.border_title, box.border_subtitle = Content(safe(self._title)), Content(self.HINT)
            yield from self.compose_box()

    def compose_box(self) -> ComposeResult:
        """What the box holds."""
        raise NotImplementedError

    def action_close(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class Pick(Window[Answer]):
    """One of several answers, each with a line; `first` is highlighted."""

    def __init__(self, title: str, lines: Sequence[str], answers: Sequence[Answer], first: int | None = None) -> None:
        super().__init__(title)
        self._lines = lines
        self._answers = answers
        self._first = first

    def compose_box(self) -> ComposeResult:
        """A line per answer."""
        choices = OptionList(*self._lines, markup=False)
        if self._first is not None:
            choices.highlighted = self._first
        yield choices

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.action_pick(event.option_index)

    def action_pick(self, place: int) -> None:
        """Close with the answer at `place`."""
        self.dismiss(self._answers[place])


class Find(Pick[Answer]):
    """One of many answers: what is typed leaves the lines that hold all of its words."""

    HINT = "type to find, enter takes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move('cursor_down')", "Down", show=False),
        Binding("up", "move('cursor_up')", "Up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
    ]

    def compose_box(self) -> ComposeResult:
        """The line to type in, and the lines that are left."""
        yield Input(select_on_focus=False)
        yield from super().compose_box()

    def on_mount(self) -> None:
        """All lines, the first one highlighted."""
        self._left = list(range(len(self._lines)))
        self.query_one(OptionList).can_focus = False
        self.query_one(OptionList).highlighted = 0

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        words, options = event.value.lower().split(), self.query_one(OptionList)
        self._left = [place for place, line in enumerate(self._lines) if all(word in line.lower() for word in words)]
        options.set_options(self._lines[place] for place in self._left)
        options.highlighted = 0 if self._left else None

    @on(Input.Submitted)
    def _taken(self) -> None:
        self.query_one(OptionList).action_select()

    def action_move(self, action: str) -> None:
        """Go on in the list, while the keyboard is in the line."""
        getattr(self.query_one(OptionList), f"action_{action}")()

    def action_pick(self, place: int) -> None:
        """Close with the answer of a line that is left."""
        super().action_pick(self._left[place])


class CopyMenu(Pick[str]):
    """What can be copied, each with its key; the answer is the text."""

    def __init__(self, entries: Sequence[Copy], title: str = "Copy") -> None:
        previews = [" ".join(entry.text.split()) for entry in entries]
        lines = [
            f"{entry.key or ' '}  {fit(entry.label, 18)} {fit(preview, PREVIEW)}"
            for entry, preview in zip(entries, previews, strict=True)
        ]
        super().__init__(title, lines, [entry.given for entry in entries])
        self._entries = entries

    def on_key(self, event: events.Key) -> None:
        """Take the entry whose key was pressed."""
        keys = [entry.key for entry in self._entries]
        if event.key in keys:
            event.stop()
            self.action_pick(keys.index(event.key))

    def action_pick(self, place: int) -> None:
        """Close with the text of an entry, or of one of those that it offers instead."""

        def picked(text: str | None) -> None:
            self.dismiss(text)

        if more := self._entries[place].more:
            self.app.push_screen(CopyMenu(more, self._entries[place].label), picked)
        else:
            super().action_pick(place)


class AskLine(Window[Answer]):
    """One line, and what is wrong with it."""

    REPLACED: ClassVar[bool] = False
    """Whether what is typed takes the place of what stands there."""

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__(title)
        self._hint = hint
        self._value = value

    def compose_box(self) -> ComposeResult:
        """The line, a hint, and a problem once there is one."""
        yield Input(self._value, select_on_focus=self.REPLACED)
        yield Static(self._hint, classes="window--hint", markup=False)
        yield Static("", classes="window--problem", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.confirmed(event.value.strip())

    def confirmed(self, text: str) -> None:
        """Enter was pressed: close with an answer, or show a problem."""
        raise NotImplementedError

    def show_problem(self, problem: str) -> None:
        """Say why the line cannot be taken."""
        line = self.query_one(".window--problem", Static)
        line.update(problem)
        line.add_class("-shown")


class AskText(AskLine[str]):
    """One line of text."""

    def confirmed(self, text: str) -> None:
        """An empty line closes without an answer."""
        self.dismiss(text or None)


class AskPath(AskLine[Path]):
    """A file to write; the suffix of its name selects the format. Existing files are not overwritten."""

    REPLACED = True

    def __init__(self, folder: Path, what: str) -> None:
        hint = f"Writes {what}.\nThe suffix says the format: {' '.join(FORMATS)}"
        super().__init__("Export", hint, str(folder / "kernels.parquet"))

    def confirmed(self, text: str) -> None:
        """Take a path of a known format that is free."""
        path = Path(text).expanduser()
        if path.suffix.lower() not in FORMATS:
            self.show_problem(f"The name must end with one of {' '.join(FORMATS)}")
        elif path.exists():
            self.show_problem(f"{path} exists already; give another name")
        elif not path.absolute().parent.is_dir():
            self.show_problem(f"{path.parent} is not a folder")
        else:
            self.dismiss(path)


class Confirm(Pick[bool]):
    """A question with yes and no."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "pick(1)", "Yes"), Binding("n", "pick(0)", "No")]

    def __init__(self, question: str) -> None:
        super().__init__("Sure?", ("n  No, go on", "y  Yes"), (False, True))
        self._question = question

    def compose_box(self) -> ComposeResult:
        """The question and its two answers."""
        yield Static(self._question, markup=False)
        yield from super().compose_box()


class Marks(SelectionList[str]):
    """A list of marks that differ in their characters: Textual's differ in colour alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def render_line(self, y: int) -> Strip:
        """An entry, with a cross where it is marked."""
        strip = super().render_line(y)
        place = round(self.scroll_offset.y) + y
        if place >= self.option_count or self.get_option_at_index(place).value in self.selected:
            return strip
        left, mark, *rest = strip
        return Strip([left, Segment(" " * len(mark.text), mark.style), *rest])


class Choose(Window[list[str]]):
    """Several of several: `space` marks, Enter takes the marked ones."""

    HINT = "space marks, enter takes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "Take", priority=True)]

    def __init__(self, title: str, names: Sequence[str], chosen: Sequence[str]) -> None:
        super().__init__(title)
        self._names = list(names)
        self._chosen = set(chosen)

    def compose_box(self) -> ComposeResult:
        """A list of marks."""
        yield Marks(*((Content(safe(name)), name, name in self._chosen) for name in self._names))

    def action_take(self) -> None:
        """Take the marked ones, in the order of the list."""
        marked = set(self.query_one(SelectionList).selected)
        self.dismiss([name for name in self._names if name in marked])


class Page(Window[bool]):
    """A page of text to read."""

    HINT = "y copies, esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter", "close", "Close", show=False),
        Binding("c,y", "copy", "Copy"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title)
        self._text = text

    def compose_box(self) -> ComposeResult:
        """The text, to be scrolled."""
        with VerticalScroll():
            yield Static(first_of(self._text, LONGEST), markup=False)

    def action_copy(self) -> None:
        """Copy the text."""
        cast("KerneldbApp", self.app).copy(self._text, "The page is on the clipboard")


class Described(Page):
    """A page about something with a name; `i` closes it with true: the name is wanted."""

    HINT = "i puts the name into the statement, y copies, esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("i", "insert", "Insert")]

    def action_insert(self) -> None:
        """Close, for the name is wanted."""
        self.dismiss(True)


OPEN_HINT: Final = (
    "A database is opened; a trace, or a folder of traces, is read into the one that is open.\n"
    "PyTorch .json .json.gz · nsys .sqlite .csv · ncu .csv · rocprof .db .csv"
)
RECENT_FILES: Final = 8


def is_database(path: Path) -> bool:
    """Whether `path` is a DuckDB file; rocpd's files end with `.db`, too.

    Such a file holds `DUCK` at bytes 8 to 11 (https://duckdb.org/docs/stable/internals/storage).
    """
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


class AskOpen(AskLine[Path]):
    """A path to open, and the files opened before: down goes to them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "recent", "Recent files", show=False)]

    def __init__(self, recent: Sequence[str]) -> None:
        super().__init__("Open", OPEN_HINT)
        self._recent = [path for path in recent if Path(path).exists()][:RECENT_FILES]

    def compose_box(self) -> ComposeResult:
        """The line, and the files below it."""
        yield from super().compose_box()
        if self._recent:
            yield OptionList(*self._recent, markup=False)

    def confirmed(self, text: str) -> None:
        """Take what is there."""
        path = Path(text).expanduser()
        if not text or not path.exists():
            self.show_problem(f"{path} does not exist")
        else:
            self.dismiss(path)

    def action_recent(self) -> None:
        """To the files."""
        for found in self.query(OptionList):
            found.focus()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(Path(self._recent[event.option_index]))


class Ingesting(Window[bool]):
    """`kerneldb ingest` while it runs: its messages, the latest at the bottom. Escape cancels it, or closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "done", "Close", show=False)]

    def __init__(self, database: str, path: Path) -> None:
        super().__init__("Ingest")
        self.command = processes.command("kerneldb", "ingest", str(path))
        # Not among the arguments, which everybody on the machine may read: the address of a lake may hold a password.
        self.environment = processes.environment() | {"KERNELDB_DB": database}
        self._path = path
        self._lines: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self.code: int | None = None

    def compose_box(self) -> ComposeResult:
        """What is read, the messages of the command, and the key that closes."""
        yield Static(safe(f"reading {self._path}"), markup=False)
        with VerticalScroll(can_focus=False):
            yield Static("", id="ingest-output", markup=False)
        yield Static("esc cancels", id="ingest-hint", classes="window--hint", markup=False)

    def on_mount(self) -> None:
        """Start."""
        self.run_worker(self._follow(), group="ingest")

    def on_unmount(self) -> None:
        """End the command: it does not go on unseen."""
        self._stop()

    async def _follow(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            *self.command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True, env=self.environment
        )
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            while process.stderr is not None and (chunk := await process.stderr.read(4096)):
                # Show more output. Progress writes the last line anew after a carriage return.
                lines = ("\n".join(self._lines) + decoder.decode(chunk)).split("\n")
                self._lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines][-200:]
                self.query_one("#ingest-output", Static).update("\n".join(self._lines))
                self.query_one(VerticalScroll).scroll_end(animate=False)
            # Before anything stops it: to signal a process that just ended takes its exit code away from asyncio.
            self.code = await process.wait()
        finally:
            self._stop()
        ended = {0: "done", 130: "cancelled"}.get(self.code, "failed; what could be read is kept")
        self.query_one("#ingest-hint", Static).update(f"{ended}; enter closes")

    def _stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def action_close(self) -> None:
        """Cancel the command; close once it has ended."""
        if self.code is None:
            self._stop()
        else:
            self.dismiss(self.code == 0)

    def action_done(self) -> None:
        """Close, once it has ended."""
        if self.code is not None:
            self.dismiss(self.code == 0)
