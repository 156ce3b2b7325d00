"""The screens. Each module is imported when its screen is first shown, so that the first one appears at once."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kerneldb.tui.pane import Pane


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A screen: its number key, its name, where its class is, and a line about it for palette and help."""

    key: str
    name: str
    title: str
    module: str
    pane: str
    about: str

    def make(self) -> Pane:
        """A new pane of the screen."""
        pane: Pane = getattr(import_module(self.module), self.pane)()
        return pane


def _place(key: str, name: str, title: str, module: str, pane: str, about: str) -> Place:
    return Place(key, name, title, f"kerneldb.tui.screens.{module}", pane, about)


PLACES: Final = (
    _place(
        "1", "overview", "Overview", "overview", "OverviewPane", "Where the GPU time goes: sums, categories, traces"
    ),
    _place(
        "2", "kernels", "Kernels", "kernels", "KernelsPane", "Operators, kernels, signatures and launches as a table"
    ),
    _place("3", "kernel", "Kernel", "detail", "DetailPane", "Everything known about one kernel signature"),
    _place("4", "timeline", "Timeline", "timeline", "TimelinePane", "When kernels ran, per device and stream"),
    _place(
        "5", "roofline", "Roofline", "roofline", "RooflinePane", "FLOP/s against intensity, under the peaks of the GPU"
    ),
    _place("6", "diff", "Diff", "diff", "DiffPane", "What changed between two traces"),
    _place("7", "replay", "Replay", "replaying", "ReplayPane", "Run the selected kernels again and measure them"),
    _place("8", "sql", "SQL", "sql", "SqlPane", "Ask in SQL; take the answer as a table"),
)
"""All screens, in the order of their keys."""

BY_NAME: Final = {place.name: place for place in PLACES}
