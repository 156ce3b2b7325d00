"""Small windows over a screen: the copy menu, questions, a page of text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from rich.segment import Segment
from textual import on
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input, OptionList, SelectionList, Static
from textual.widgets.option_list import Option

from kerneldb.tui.numbers import fit
from kerneldb.tui.typeahead import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from kerneldb.tui.pane import Copy

PREVIEW: Final = 48
FORMATS: Final = (".parquet", ".csv", ".json", ".ndjson", ".arrow", ".txt")

Answer = TypeVar("Answer")


class ClosesOnce:
    """Makes a window close once: keys that were typed after the one that closes it may still come to it.

    Not a widget itself, for styles come from the first base that is one.
    """

    _was_dismissed = False

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close with an answer, unless it has one."""
        if self._was_dismissed:
            return AwaitComplete()
        self._was_dismissed = True
        closed: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return closed


class Window(ClosesOnce, ModalScreen[Answer]):
    """A box in the middle; Escape closes it without an answer."""

    AUTO_FOCUS = "*"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]

    HINT: ClassVar[str] = ""
    """Keys that nobody guesses, on the frame: there they are seen however little of the content fits."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    async def on_descendant_focus(self) -> None:
        """The window has the keyboard."""
        await opened(self.app)

    def compose(self) -> ComposeResult:
        """The box with what it holds."""
        with Vertical() as box:
            box.border_title, box.border_subtitle = self._title, self.HINT
            yield from self.compose_box()

    def compose_box(self) -> ComposeResult:
        """What the box holds."""
        raise NotImplementedError

    def action_close(self) -> None:
        """Close without an answer."""
        self.dismiss(None)


class CopyMenu(Window[str]):
    """What can be copied, each with its key; the answer is the text."""

    def __init__(self, entries: Sequence[Copy], title: str = "Copy") -> None:
        super().__init__(title)
        self._entries = list(entries)

    def compose_box(self) -> ComposeResult:
        """One line per entry."""
        lines = (
            f"{entry.key or ' '}  {fit(entry.label, 18)} {fit(' '.join(entry.text.split()), PREVIEW)}"
            for entry in self._entries
        )
        yield OptionList(*lines, markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the entry whose key was pressed."""
        for entry in self._entries:
            if event.key == entry.key:
                event.stop()
                self._take(entry)
                return

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self._take(self._entries[event.option_index])

    def _take(self, entry: Copy) -> None:
        if entry.more:
            self.app.push_screen(CopyMenu(entry.more, entry.label), self._picked)
        else:
            self.dismiss(entry.text)

    def _picked(self, text: str | None) -> None:
        self.dismiss(text)


class AskLine(Window[Answer]):
    """One line, and what is wrong with it."""

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__(title)
        self._hint = hint
        self._value = value

    def compose_box(self) -> ComposeResult:
        """The line, a hint, and a problem once there is one."""
        yield Input(self._value, select_on_focus=False)
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
    """A file to write; the suffix of its name says the format. Existing files are not overwritten."""

    def __init__(self, folder: Path, what: str) -> None:
        hint = f"Writes {what}.\nThe suffix says the format: {' '.join(FORMATS)}"
        super().__init__("Export", hint, str(folder / "kernels.parquet"))

    def confirmed(self, text: str) -> None:
        """Take a path of a known format that is free."""
        path = Path(text).expanduser()
        if path.suffix.lower() not in FORMATS:
            self.show_problem(f"The name must end with one of {' '.join(FORMATS)}")
        elif path.exists():
            self.show_problem(f"{path} is there already; give another name")
        elif not path.absolute().parent.is_dir():
            self.show_problem(f"{path.parent} is not a folder")
        else:
            self.dismiss(path)


class Confirm(Window[bool]):
    """A question with yes and no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__("Sure?")
        self._question = question

    def compose_box(self) -> ComposeResult:
        """The question and its two answers."""
        yield Static(self._question, markup=False)
        yield OptionList(Option("n  No, go on", id="no"), Option("y  Yes", id="yes"), markup=False)

    def action_answer(self, agreed: bool) -> None:
        """Take an answer."""
        self.dismiss(agreed)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id == "yes")


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
        yield Marks(*((name, name, name in self._chosen) for name in self._names))

    def action_take(self) -> None:
        """Take the marked ones, in the order of the list."""
        marked = set(self.query_one(SelectionList).selected)
        self.dismiss([name for name in self._names if name in marked])


class Page(Window[None]):
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
            yield Static(self._text, markup=False)

    def action_copy(self) -> None:
        """Copy the text."""
        self.app.copy_to_clipboard(self._text)
        self.app.notify("The page is on the clipboard", title="Copied")
