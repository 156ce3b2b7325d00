"""Keys pressed before what takes them is open, or faster than the database answers: none is lost."""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from textual import events
from textual.app import App

from kerneldb.tui.widgets.where_bar import WhereBar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WHERE_KEYS: Final = ("slash", "w")
OPENING: Final = frozenset({"where", "go_to", "copy_menu", "export", "open", "command_palette"})
"""Actions that open something (the WHERE bar, a window), which the keys after them are for."""
HOLD_S: Final = 2.0
"""How long keys wait at most for what takes them."""


class Typing(App[None]):
    """An application whose WHERE bar and windows get all keys pressed after the one that opens them."""

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


P = ParamSpec("P")
Key = TypeVar("Key")


class KeyQueue(Generic[Key]):
    """What keys asked for and is not done yet, in their order.

    `handle` gets a key and how often it was pressed in a row by then. One call of it runs at a time, so an answer is
    shown however fast the next key comes.
    """

    def __init__(self, handle: Callable[[Key, int], Awaitable[object]]) -> None:
        self._handle = handle
        self._waiting: deque[tuple[Key, int] | Callable[[], object]] = deque()
        self._runs = False

    def __bool__(self) -> bool:
        """Whether anything waits or is being handled."""
        return bool(self._waiting) or self._runs

    def add(self, key: Key) -> None:
        """`key` was pressed (again)."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, tuple) and last[0] == key:
            self._waiting[-1] = key, last[1] + 1
        else:
            self._waiting.append((key, 1))

    def then(self, act: Callable[[], object]) -> None:
        """Do `act` when all that waits is done."""
        self._waiting.append(act)

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()

    async def run(self) -> None:
        """Handle what waits, and what comes meanwhile. Does nothing where another call is at it."""
        if self._runs:
            return
        self._runs = True
        try:
            while self._waiting:
                entry = self._waiting.popleft()
                if isinstance(entry, tuple):
                    await self._handle(*entry)
                else:
                    entry()
        finally:
            self._runs = False
            self.clear()


class HasKeyQueue(Protocol):
    """A screen with a queue of keys."""

    key_queue: KeyQueue[Any]


Screen = TypeVar("Screen", bound=HasKeyQueue)


def queued(action: Callable[Concatenate[Screen, P], None]) -> Callable[Concatenate[Screen, P], None]:
    """An action that waits until the keys pressed before it are done."""

    @functools.wraps(action)
    def wait(screen: Screen, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if screen.key_queue:
            screen.key_queue.then(functools.partial(action, screen, *args, **kwargs))
        else:
            action(screen, *args, **kwargs)

    return wait
