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


class LevelBar(Static):
    """The levels with the current one marked, and how many rows it has; a click takes another one."""

    DEFAULT_CSS = "LevelBar { height: 1; padding: 0 1; color: $text-muted; }"

    level: reactive[Level] = reactive[Level]("kernel")
    count: reactive[int] = reactive(0)

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
            label = f"{self.count:,} {PLURALS[level] if self.count != 1 else level}" if here else PLURALS[level]
            parts.append(Content.styled(label, "bold reverse" if here else ""))
        return Content(" → ").join(parts)

    def on_click(self, event: events.Click) -> None:
        """The level under the mouse."""
        end = self.styles.padding.left
        for level in LEVELS:
            here = level == self.level
            end += len(f"{self.count:,} {PLURALS[level]}" if here else PLURALS[level]) + 3
            if event.x < end:
                self.post_message(self.Wanted(level))
                return
