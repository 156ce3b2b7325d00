"""The line that says what a row is: operator, kernel, signature or launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from kerneldb.tui.model import LEVELS, Level

if TYPE_CHECKING:
    from textual import events

PLURALS: dict[Level, str] = {"op": "operators", "kernel": "kernels", "signature": "signatures", "launch": "launches"}

SINGULARS: dict[Level, str] = {"op": "operator"}


class LevelBar(Static):
    """The levels with the current one marked, and how many rows it has; a click takes another one."""

    DEFAULT_CSS = "LevelBar { height: 1; padding: 0 1; color: $text-muted; }"

    level: reactive[Level] = reactive[Level]("kernel")
    count: reactive[int | None] = reactive[int | None](None)
    """Rows of the level; None while they are asked for."""

    class Wanted(Message):
        """Another level was clicked."""

        def __init__(self, level: Level) -> None:
            super().__init__()
            self.level = level

    def render(self) -> Content:
        """All levels, from the whole to the single launch."""
        parts = []
        for level in LEVELS:
            here = level == self.level
            label = self._label(level)
            parts.append(Content.styled(label, "bold reverse" if here else ""))
        return Content(" → ").join(parts)

    def _label(self, level: Level) -> str:
        if level != self.level or self.count is None:
            return PLURALS[level]
        return f"{self.count:,} {PLURALS[level] if self.count != 1 else SINGULARS.get(level, level)}"

    def on_click(self, event: events.Click) -> None:
        """The level under the mouse."""
        end = self.styles.padding.left
        for level in LEVELS:
            end += len(self._label(level)) + 3
            if event.x < end:
                self.post_message(self.Wanted(level))
                return
