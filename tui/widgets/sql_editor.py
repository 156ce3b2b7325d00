"""An editor for SQL: colours by a few rules, completion of the word at the cursor."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from kerneldb.tui import theme
from kerneldb.tui.widgets.where_bar import completion

if TYPE_CHECKING:
    from rich.text import Text

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
WORD: Final = re.compile(r"[\w']+$")
SHORTEST: Final = 2


class SqlEditor(TextArea):
    """The editor. `words` are what completion offers; Right takes the suggestion, Tab goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j,f9", "run", "Run", key_display="^j"),
        Binding("ctrl+x", "stop", "Cancel", show=False, key_display="^x"),
        Binding("ctrl+up", "past(1)", "Older", show=False),
        Binding("ctrl+down", "past(-1)", "Newer", show=False),
        Binding("ctrl+y", "app.copy_command", "Copy as command", show=False),
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

    def __init__(self, text: str = "") -> None:
        super().__init__(
            text, language=None, tab_behavior="focus", compact=True, id="sql-edit", highlight_cursor_line=False
        )
        self.words: list[str] = []

    def get_line(self, line_index: int) -> Text:
        """The line, in colours."""
        line = super().get_line(line_index)
        for token in TOKENS.finditer(line.plain):
            line.stylize(theme.colour(self.app, HUES[token.lastgroup or "text"]), token.start(), token.end())
        return line

    def update_suggestion(self) -> None:
        """The rest of the first word that begins like the one at the cursor."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        found = WORD.search(line[:column])
        begun = found[0] if found is not None and column == len(line) else ""
        self.suggestion = completion(self.words, begun) if len(begun) >= SHORTEST else ""

    def action_run(self) -> None:
        """Run the text."""
        self.post_message(self.Run())

    def action_stop(self) -> None:
        """Cancel."""
        self.post_message(self.Stop())

    def action_past(self, by: int) -> None:
        """Walk through what was run before."""
        self.post_message(self.Past(by))
