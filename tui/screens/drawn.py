"""Screens whose keys all act on what is drawn: they rest while a sentence stands in its place."""

from __future__ import annotations

from textual.binding import Binding

from kerneldb.tui.pane import Pane


class DrawnPane(Pane):
    """A pane none of whose own keys means anything without its content."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without content, keys do what they do on every screen, and the line of keys lists no others."""
        own = {binding.action.partition("(")[0] for binding in self.BINDINGS if isinstance(binding, Binding)}
        if action in own and self.has_class("-sentence"):
            return False
        return super().check_action(action, parameters)
