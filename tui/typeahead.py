"""Keys that are typed before what they are for is there."""

from __future__ import annotations

from typing import Final

from textual import events
from textual.app import App

from kerneldb.tui.widgets.wherebar import WhereBar

WHERE_KEYS: Final = ("slash", "w")
HOLD_S: Final = 2.0
"""How long keys wait at most for `/` to put the cursor into the WHERE bar."""


class Typing(App[None]):
    """An application whose WHERE bar gets all keys behind the one that opens it."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[events.Key] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Keys that come while `/` is on its way to its action wait for it: they are the condition."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._held is not None:
            self._held.append(event)
        else:
            if self._opens_bar(event):
                self._held = []
                self.set_timer(HOLD_S, self._let_go)
            await super().on_event(event)

    def _opens_bar(self, event: events.Key) -> bool:
        found = self.screen.active_bindings.get(event.key) if event.key in WHERE_KEYS else None
        focused = self.focused
        taken = focused is not None and focused.check_consume_key(event.key, event.character)
        return found is not None and found.binding.action == "where" and not taken

    async def _let_go(self) -> None:
        """Hand the keys that waited to what has the keyboard now."""
        held, self._held = self._held, None
        for event in held or ():
            await super().on_event(event)

    async def action_where(self) -> None:
        """Put the cursor into the WHERE bar."""
        self.query_one(WhereBar).edit()
        await self._let_go()
