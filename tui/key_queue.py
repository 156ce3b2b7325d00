"""Keys that come faster than the database answers: they wait in a queue, and none is lost."""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
