"""Keys that come faster than the answers: they take turns, and none is lost."""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
Key = TypeVar("Key")


class Taker(Protocol):
    """A screen whose keys take turns."""

    turns: Turns[Any]


Screen = TypeVar("Screen", bound=Taker)


class Turns(Generic[Key]):
    """What keys asked for and is not done yet, in their order.

    `take` does it: of a key that was pressed several times in a row, as often as it was by then, in one go. One call of
    it at a time does all that waits, so an answer is shown however fast the next key comes.
    """

    def __init__(self, take: Callable[[Key, int], Awaitable[object]]) -> None:
        self._take = take
        self._waiting: deque[tuple[Key, int] | Callable[[], object]] = deque()
        self._runs = False

    def __bool__(self) -> bool:
        """Whether anything waits, or is on its way."""
        return bool(self._waiting) or self._runs

    def add(self, key: Key) -> None:
        """Another turn of `key`."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, tuple) and last[0] == key:
            self._waiting[-1] = key, last[1] + 1
        else:
            self._waiting.append((key, 1))

    def then(self, act: Callable[[], object]) -> None:
        """Do `act` when all that waits is done."""
        self._waiting.append(act)

    def clear(self) -> None:
        """Nobody wants what waits any more."""
        self._waiting.clear()

    async def run(self) -> None:
        """Do what waits, and what comes meanwhile. Nothing where another call is at it."""
        if self._runs:
            return
        self._runs = True
        try:
            while self._waiting:
                turn = self._waiting.popleft()
                if isinstance(turn, tuple):
                    await self._take(*turn)
                else:
                    turn()
        finally:
            self._runs = False
            self.clear()


def in_turn(action: Callable[Concatenate[Screen, P], None]) -> Callable[Concatenate[Screen, P], None]:
    """An action that begins where the keys before it have led to."""

    @functools.wraps(action)
    def wait(screen: Screen, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if screen.turns:
            screen.turns.then(functools.partial(action, screen, *args, **kwargs))
        else:
            action(screen, *args, **kwargs)

    return wait
