"""The editor for SQL, in colours, and the list of what can stand at its cursor."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from kerneldb.api.completion import Offer, Offers, Words
from kerneldb.tui import numbers, theme

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events

KEYWORDS: Final = (
    "all and any as asc between by case cast cross desc describe distinct else end except exists explain false filter "
    "following from full group having ilike in inner intersect is join lateral left like limit not null nulls offset "
    "on or order over partition pivot preceding qualify range right rows select semi show similar summarize then true "
    "unbounded union unnest unpivot using values when where window with"
)
TOKENS: Final = re.compile(
    r"(?P<comment>--.*)|(?P<text>'(?:[^']|'')*'?)|(?P<number>\b\d[\d_.]*(?:e[+-]?\d+)?\b)"
    rf"|(?P<keyword>\b(?:{'|'.join(KEYWORDS.split())})\b)|(?P<call>\b\w+(?=\())",
    re.IGNORECASE,
)
HUES: Final[dict[str, theme.Hue]] = {
    "comment": "grey",
    "text": "green",
    "number": "orange",
    "keyword": "blue",
    "call": "magenta",
}
SHORTEST: Final = 2
"""So many characters of a word bring up the list; a dot, a quote and ^space do, too."""
WORD_CELLS, KIND_CELLS, LIST_CELLS = 30, 9, 76
EDGES: Final = 4
"""Cells between the frame and the text of the list, with a scroll bar."""


class OfferList(OptionList, can_focus=False):
    """What can stand at the cursor of the editor, each with its kind and meaning, in front of what is below it."""

    DEFAULT_CSS = """
    OfferList {
        overlay: screen; constrain: inside inflect; display: none; width: auto; height: auto; max-height: 9;
        padding: 0 1; border: none; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
    }
    OfferList.-open { display: block; }
    OfferList:nocolor { border-left: solid $foreground; }
    """

    def __init__(self) -> None:
        super().__init__(id="sql-offers", markup=False)
        self.offers = Offers("")
        self.moved = False
        """Whether somebody went to an entry: Enter is for the list then, and else for the text."""

    @property
    def is_open(self) -> bool:
        """Whether it is on the screen."""
        return self.has_class("-open")

    def show(self, offers: Offers, editor: TextArea) -> None:
        """Show what can stand at the cursor of `editor`; nothing where there is nothing."""
        if offers != self.offers or not self.is_open:
            self.offers, self.moved = offers, False
            room = min(LIST_CELLS, self.app.size.width) - EDGES
            self.set_options([Option(_line(one, room)) for one in offers.found])
            self.highlighted = 0 if offers.found else None
        self.absolute_offset = editor.cursor_screen_offset - (len(offers.begun) + 1, 0) + (0, 1)
        self.set_class(bool(offers.found), "-open")

    def close(self) -> None:
        """Show nothing."""
        self.remove_class("-open")

    @property
    def chosen(self) -> Offer:
        """The entry that is highlighted."""
        return self.offers.found[self.highlighted or 0]


def _line(offer: Offer, room: int) -> Content:
    about = " ".join(offer.meaning.split())
    text = f"{numbers.fit(offer.word, WORD_CELLS, middle=True)} {offer.kind:<{KIND_CELLS}}"
    return Content(numbers.fit(f"{text} {about}", room))


class SqlEditor(TextArea):
    """The editor. `words` are what completion offers: below the cursor as a list, and behind it what Right takes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,f9", "run", "Run", key_display="^j"),
        Binding("ctrl+@,ctrl+space", "complete", "Complete", key_display="^space", tooltip="What can stand here"),
        Binding("ctrl+x", "stop", "Cancel", show=False, key_display="^x"),
        Binding("escape", "app.leave_off", "Leave", key_display="esc", tooltip="Keys are those of the screen again"),
        Binding("ctrl+up", "past(1)", "Older", show=False),
        Binding("ctrl+down", "past(-1)", "Newer", show=False),
        Binding("ctrl+y", "app.copy_command", "Copy as command", show=False),
        Binding("f6", "app.copy_menu", "Copy…", show=False),  # as everywhere: Textual's editor would select the line
    ]
    DEFAULT_CSS = """
    SqlEditor { height: 8; border: none; padding: 0 1; }
    SqlEditor:focus { border: none; }
    """

    class Run(Message):
        """The text is to be run."""

    class Stop(Message):
        """What runs is to be cancelled."""

    @dataclasses.dataclass
    class Past(Message):
        """An older (1) or newer (-1) text is wanted."""

        by: int

    def __init__(self, text: str, offers: OfferList) -> None:
        self.words = Words()
        self.list = offers
        self._typing = False
        super().__init__(
            text, language=None, tab_behavior="focus", compact=True, id="sql-edit", highlight_cursor_line=False
        )

    def get_line(self, line_index: int) -> Text:
        """The line, in colours."""
        line = super().get_line(line_index)
        for token in TOKENS.finditer(line.plain):
            line.stylize(theme.colour(self.app, HUES[token.lastgroup or "text"]), token.start(), token.end())
        return line

    def on_mount(self) -> None:
        """The first text is an example: what is typed takes its place."""
        self.select_all()

    # Completion.

    @property
    def before(self) -> str:
        """The text up to the cursor."""
        return self.get_text_range((0, 0), self.cursor_location)

    @property
    def offers(self) -> Offers:
        """What can stand at the cursor."""
        return self.words.at(self.before, self.get_text_range(self.cursor_location, self.document.end))

    def update_suggestion(self) -> None:
        """The text or the cursor changed: what can stand there is shown where a word is being written."""
        offers = self.offers
        is_last = self.cursor_at_end_of_line and len(offers.begun) >= SHORTEST
        self.suggestion = offers.rest if is_last else ""
        begun = (
            len(offers.begun) >= (1 if self.list.is_open else SHORTEST)
            or offers.begun.startswith("'")
            or self.before.endswith(".")
        )
        if (self._typing or self.list.is_open) and begun and [one.word for one in offers.found] != [offers.begun]:
            self.list.show(offers, self)
        else:
            self.list.close()

    def load_text(self, text: str) -> None:
        """Another text; nothing is offered for it."""
        self.list.close()
        super().load_text(text)

    async def _on_key(self, event: events.Key) -> None:
        """The list takes its keys while it is open; what is typed brings it up."""
        if self.list.is_open and self._is_for_list(event.key):
            event.stop()
            event.prevent_default()
            return
        self._typing = event.is_printable
        try:
            await super()._on_key(event)
            event.prevent_default()  # of the handler that has just been called
        finally:
            self._typing = False

    def _is_for_list(self, key: str) -> bool:
        """Do what `key` does in the list; False where it does nothing there."""
        if key in {"down", "up"}:
            self.list.moved = True
            self.list.action_cursor_down() if key == "down" else self.list.action_cursor_up()
        elif key == "escape":
            self.list.close()
        elif key == "tab" or (key == "enter" and self.list.moved):
            self.take(self.list.chosen)
        else:
            return False
        return True

    def take(self, offer: Offer) -> None:
        """Put a word in place of what is begun at the cursor."""
        row, column = self.cursor_location
        start, line = column - len(self.offers.begun), self.document.get_line(row)
        closed = offer.word.endswith("'") and line[column : column + 1] == "'"
        self.replace(offer.word, (row, start), (row, column + closed), maintain_selection_offset=False)
        self.move_cursor((row, start + len(offer.word)))
        self.list.close()

    def action_complete(self) -> None:
        """Show what can stand at the cursor, whatever is begun; put it there where it is one word."""
        offers = self.offers
        self.list.show(offers, self)
        if len(offers.found) == 1:
            self.take(offers.found[0])

    def action_cursor_right(self, select: bool = False) -> None:
        """Take the word that is shown behind the cursor, or go there."""
        if self.suggestion and not select:
            self.take(self.offers.found[0])
        else:
            super().action_cursor_right(select)

    def on_blur(self) -> None:
        """The keyboard is elsewhere."""
        self.list.close()

    # What the screen does.

    def action_run(self) -> None:
        """Run the text."""
        self.list.close()
        self.post_message(self.Run())

    def action_stop(self) -> None:
        """Cancel."""
        self.post_message(self.Stop())

    def action_past(self, by: int) -> None:
        """Walk through what was run before."""
        self.post_message(self.Past(by))
