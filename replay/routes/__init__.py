"""Routes: the ways to make a planned call again. A route is one class, registered under the name that plans use.

    class Mine:
        name = "mine"
        def prepare(self, item, device): yield …     # calls to try, the most likely first

    register(Mine())

`memory` and `aten` are registered here; other modules register theirs when they are imported (`--import MODULE`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from kerneldb.replay.plan import Item
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError


class Input(Protocol):
    """A tensor that a call reads or writes, with the name of its argument and the bytes that it really holds."""

    @property
    def name(self) -> str:
        """Schema name of the argument; `tensors[2]` in a list."""
        ...

    @property
    def tensor(self) -> Any:
        """The tensor."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes of the elements that it really holds: broadcast dims once."""
        ...


class Call(Protocol):
    """A call with its inputs in memory, ready to run any number of times.

    One that has its operator as `function` (an OpOverload) tells by its schema which inputs it changes.
    """

    @property
    def overload(self) -> str:
        """The overload called, as in `aten::add.Tensor`."""
        ...

    @property
    def inputs(self) -> Sequence[Input]:
        """The tensors it reads or writes."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed."""
        ...

    def call(self) -> Any:
        """Run it once. Raises UnresolvedCallError, or an error of torch, where the operator refuses."""
        ...

    def refill(self, seed: int = 0) -> None:
        """Draw all inputs anew."""
        ...


class Route(Protocol):
    """A way to make calls again."""

    @property
    def name(self) -> str:
        """The name that plans use."""
        ...

    def prepare(self, item: Item, device: str) -> Iterator[Call]:
        """The calls that `item` may have been, best first, each built when asked for; the same ones every time.

        `device` is a torch device text. Raises UnresolvedCallError where there is none.
        """
        ...


_ROUTES: Final[dict[str, Route]] = {}


def register(route: Route) -> None:
    """Make `route` known under its name; the last one registered wins."""
    _ROUTES[route.name] = route


def find(name: str) -> Route:
    """The route of that name. Raises UnresolvedCallError (MODULE) where nothing registered it."""
    if name not in _ROUTES:
        known = ", ".join(sorted(_ROUTES))
        raise UnresolvedCallError(Reason.MODULE, f"no route {name!r} here (known: {known})")
    return _ROUTES[name]


def register_defaults() -> None:
    """Register the routes that come with kerneldb."""
    from kerneldb.replay.routes.aten import AtenRoute
    from kerneldb.replay.routes.memory import MemoryRoute

    register(AtenRoute())
    register(MemoryRoute())
