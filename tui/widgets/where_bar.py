"""The WHERE bar: one line of SQL over `kernels`, completion, history, and the message of the engine below it."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Label, Static

from kerneldb.api.completion import Words

if TYPE_CHECKING:
    from textual.app import ComposeResult

MARKED: Final = re.compile(r"^(?P<head>LINE \d+: )(?P<line>.*)\n(?P<before> *)(?P<carets>\^+)[ ^]*$", re.MULTILINE)
SIDES: Final = 2
"""Cells that the padding takes."""


class EngineMessage(Static):
    """A message. A line with a marked place is cut, not wrapped: the mark is in the line below."""

    def __init__(self, message: str = "", **options: Any) -> None:
        super().__init__(message, markup=False, **options)
        self._message = message

    def say(self, message: str) -> None:
        """Show a message."""
        self._message = message
        self.update(self._fitting())

    def on_resize(self) -> None:
        """Cut for the new width."""
        if (fitting := self._fitting()) != self.content:
            self.update(fitting)

    def _fitting(self) -> str:
        return fitted(self._message, self.app.size.width - SIDES)


def fitted(message: str, width: int) -> str:
    """`message` with the lines whose place is marked cut to `width` cells, so that the mark stays below its place."""
    return MARKED.sub(lambda found: _cut(found, width), message)


def _cut(found: re.Match[str], width: int) -> str:
    head, line = found["head"], found["line"]
    room = width - len(head)
    if len(line) <= room or room <= SIDES:
        return found[0]
    place = max(len(found["before"]) - len(head), 0)
    size = min(len(found["carets"]), room // 2)
    start = min(max(place - (room - size) // 2, 0), len(line) - room)
    shown = line[start : start + room]
    left, right = "…" if start else "", "…" if start + room < len(line) else ""
    shown = left + shown[len(left) : room - len(right)] + right
    return f"{head}{shown}\n{' ' * (len(head) + place - start)}{'^' * size}"


BREAK: Final = "↵"
"""Stands for the end of a line: the bar has one line, and a comment goes on to the end of its own."""

ENDS: Final = re.compile(r"\r\n?|\n")


def _in_a_line(text: str) -> str:
    return ENDS.sub(BREAK, text.strip())


class Condition(Suggester):
    """Completes the last word of a condition: columns, and values of the column before it."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.words = Words()

    async def get_suggestion(self, value: str) -> str | None:
        """`value` with its last word completed."""
        offers = self.words.in_condition(value.replace(BREAK, "\n"))
        return value[: len(value) - len(offers.begun)] + offers.found[0].word if offers.rest else None


class WhereInput(Input):
    """The line itself. Up and down walk through the conditions used before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "past(1)", "Older", show=False),
        Binding("down", "past(-1)", "Newer", show=False),
        Binding("ctrl+u", "clear_all", "Clear", show=False),
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.past: list[str] = []
        self._place = -1
        self._draft = ""

    def action_clear_all(self) -> None:
        """Empty the line."""
        self.value = ""

    def begin(self) -> None:
        """Start at the newest place of the history."""
        self._place = -1

    def action_past(self, by: int) -> None:
        """The condition used before this one (1), or after it (-1), and last what was being written."""
        place = min(max(self._place + by, -1), len(self.past) - 1)
        if place == self._place:
            return
        if self._place == -1:
            self._draft = self.value
        self._place = place
        self.value = self._draft if place == -1 else _in_a_line(self.past[place])
        self.cursor_position = len(self.value)


class WhereBar(Vertical):
    """The line, and under it the engine's message while the text does not work. Ends of lines show as `BREAK`."""

    @dataclasses.dataclass
    class Given(Message):
        """A condition was confirmed."""

        text: str

    def __init__(self) -> None:
        super().__init__(id="where")
        self.suggester = Condition()
        self._accepted = ""
        self._begun = ""

    def compose(self) -> ComposeResult:
        """A label, the line, the message."""
        with Horizontal():
            yield Label("where", id="where-label", markup=False)
            yield WhereInput(
                placeholder="all launches; / writes a condition: category = 'GEMM'",
                suggester=self.suggester,
                select_on_focus=False,
                id="where-input",
            )
        yield EngineMessage(classes="wherebar--message")

    @property
    def line(self) -> WhereInput:
        """The input."""
        return self.query_one(WhereInput)

    @property
    def editing(self) -> bool:
        """Whether the keyboard is in the line."""
        return self.line.has_focus

    def edit(self) -> None:
        """Put the cursor at the end of the line, at once: the next key may be on its way already."""
        self.line.begin()
        self.screen.set_focus(self.line)
        self._begun = self.line.value
        self.line.cursor_position = len(self.line.value)

    def leave(self) -> None:
        """Take back what was being written."""
        self._write(self._accepted)
        self.accept(self._accepted)

    def accept(self, text: str) -> None:
        """`text` is what all screens look at now. A condition that is being written stays."""
        self._accepted = text
        self.remove_class("-bad")
        if not self._written:
            self._write(text)

    def refuse(self, text: str, message: str) -> None:
        """`text` does not work, for the reason `message`; the screens keep what they show.

        The message repeats the text. Where the bar above shows that already, it is left out: it may fill the terminal.
        """
        if not self._written:
            self._write(text)
            message = message.removeprefix(f"the condition {text.strip()!r} does not work: ")
        self.add_class("-bad")
        self.query_one(EngineMessage).say(message)

    @property
    def _written(self) -> bool:
        """Whether something was typed that is not confirmed yet."""
        return self.editing and self.line.value != self._begun

    def _write(self, text: str) -> None:
        self._begun = _in_a_line(text)
        if self.line.value != self._begun:
            self.line.value = self._begun

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Given(event.value.replace(BREAK, "\n")))
