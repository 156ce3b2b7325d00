"""What the engine says about a text, with the place that it marks."""

from __future__ import annotations

import re
from typing import Any, Final

from textual.widgets import Static

MARKED: Final = re.compile(r"^(?P<head>LINE \d+: )(?P<line>.*)\n(?P<before> *)(?P<carets>\^+)[ ^]*$", re.MULTILINE)
SIDES: Final = 2
"""Cells that the padding takes."""


class EngineMessage(Static):
    """A message. A line whose place is marked is cut, not wrapped: the mark stands in the line below."""

    def __init__(self, message: str = "", **options: Any) -> None:
        super().__init__(message, markup=False, **options)
        self._said = message

    def say(self, message: str) -> None:
        """Show a message."""
        self._said = message
        self.update(self._fitting())

    def on_resize(self) -> None:
        """Cut for the new width."""
        if (fitting := self._fitting()) != self.content:
            self.update(fitting)

    def _fitting(self) -> str:
        return fitted(self._said, self.app.size.width - SIDES)


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
