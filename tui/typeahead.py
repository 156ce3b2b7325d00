"""Keys that are typed before what they are for is there."""

from __future__ import annotations

from typing import Any, Final

from textual import events
from textual.app import App

from kerneldb.tui.widgets.where_bar import WhereBar

WHERE_KEYS: Final = ("slash", "w")
OPENING: Final = frozenset({"where", "go_to", "copy_menu", "export", "open", "command_palette"})
"""Actions behind which keys are for what they open: the WHERE bar, or a window."""
HOLD_S: Final = 2.0
"""How long keys wait at most for what takes them."""


class Typing(App[None]):
    """An application whose WHERE bar and windows get all keys behind the one that opens them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._held: list[events.Key] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Keys that come while something is being opened wait for it: they are the condition, or the line."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif not self.screen_stack:
            return  # the program ends
        elif self._held is not None:
            self._held.append(event)
        else:
            if self._opens(event):
                self._held = []
                self.set_timer(HOLD_S, self.let_go)
            await super().on_event(event)

    def _opens(self, event: events.Key) -> bool:
        own = self._bindings.key_to_bindings.get(event.key, ())
        if not any(binding.action in OPENING for binding in own):
            return False
        found = self.screen.active_bindings.get(event.key)
        focused = self.focused
        taken = focused is not None and focused.check_consume_key(event.key, event.character)
        return found is not None and found.node is self and found.binding.action in OPENING and not taken

    async def let_go(self) -> None:
        """Hand the keys that waited to what has the keyboard now."""
        held, self._held = self._held, None
        for event in held or ():
            await super().on_event(event)

    async def action_where(self) -> None:
        """Put the cursor into the WHERE bar."""
        self.query_one(WhereBar).edit()
        await self.let_go()


async def opened(app: App[Any]) -> None:
    """A window has the keyboard: keys that came before are its own."""
    if isinstance(app, Typing):
        await app.let_go()
