"""The screens. Each module is imported when its screen is first shown, so that the first one appears at once."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kerneldb.tui.pane import Pane


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A screen: its number key, the name of its module, its title, its class, and a line for palette and help."""

    key: str
    name: str
    title: str
    pane: str
    about: str

    @property
    def module(self) -> str:
        """Where its class is."""
        return f"kerneldb.tui.screens.{self.name}"

    def make(self) -> Pane:
        """A new pane of the screen."""
        pane: Pane = getattr(import_module(self.module), self.pane)()
        return pane


PLACES: Final = (
    Place("1", "overview", "Overview", "OverviewPane", "Where the GPU time goes: sums, categories, traces"),
    Place("2", "kernels", "Kernels", "KernelsPane", "Operators, kernels, signatures and launches as a table"),
    Place("3", "kernel", "Kernel", "KernelPane", "Everything known about one kernel signature"),
    Place("4", "timeline", "Timeline", "TimelinePane", "When kernels ran, per device and stream"),
    Place("5", "roofline", "Roofline", "RooflinePane", "FLOP/s against intensity, under the peaks of the GPU"),
    Place("6", "diff", "Diff", "DiffPane", "What changed between two traces"),
    Place("7", "replay", "Replay", "ReplayPane", "Run the selected kernels again and measure them"),
    Place("8", "sql", "SQL", "SqlPane", "Ask in SQL; take the answer as a table"),
)
"""All screens, in the order of their keys."""

BY_NAME: Final = {place.name: place for place in PLACES}
