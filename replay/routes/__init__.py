"""Routes: the ways to make a planned call again. A route is one class, registered under the name that plans use.

    class Mine:
        name = "mine"
        def prepare(self, item, device): yield …     # calls to try, the most likely first

    register(Mine())

`memory` and `aten` are registered here; other modules register theirs when they are imported (`--import MODULE`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.wire.plan import Candidate, Item

if TYPE_CHECKING:
    from kerneldb.replay.wire.journal import Try
    from kerneldb.replay.worker.results import Verdict


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


class Search(Protocol):
    """Chooses the calls to try for an item whose own is not recorded, from what came of the earlier ones.

    Attempts are counted from 0; `attempts` has those chosen so far.
    """

    @property
    def attempts(self) -> Sequence[Any]:
        """The calls chosen so far."""
        ...

    def build(self, attempt: int, device: str) -> Call:
        """The call of an attempt. Raises UnresolvedCallError."""
        ...

    def played(self, attempt: int) -> Item:
        """The item with the call of the attempt as its recorded one."""
        ...

    def failed(self, attempt: int, reason: str) -> None:
        """An attempt could not run."""
        ...

    def told(self, verdict: Verdict) -> None:
        """An attempt ran."""
        ...

    def better(self, new: Verdict, old: Verdict | None) -> bool:
        """Whether a new verdict stands rather than the one so far."""
        ...

    def goes_on(self, attempt: int) -> bool:
        """Whether there is a further call to try after this attempt."""
        ...

    def found(self) -> Candidate | None:
        """The call that is believed."""
        ...

    def trail(self) -> tuple[Try, ...]:
        """All tries in order."""
        ...


class Route(Protocol):
    """A way to make calls again.

    One that also has `search(item) -> Search` chooses its calls by what came of the earlier ones.
    """

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


def search(item: Item) -> Search | None:
    """A search for the call of `item`, where its route makes one and there are candidates."""
    maker = getattr(_ROUTES.get(item.route), "search", None)
    if maker is None or not item.candidates:
        return None
    made: Search = maker(item)
    return made


def register_defaults() -> None:
    """Register the routes that come with kerneldb."""
    from kerneldb.replay.routes.aten import AtenRoute
    from kerneldb.replay.routes.collective import CollectiveRoute
    from kerneldb.replay.routes.inferred import InferredRoute
    from kerneldb.replay.routes.inherited import InheritedRoute
    from kerneldb.replay.routes.memory import MemoryRoute
    from kerneldb.replay.routes.triton import TritonRoute

    register(AtenRoute())
    register(MemoryRoute())
    register(TritonRoute())
    register(CollectiveRoute())
    register(InheritedRoute())
    register(InferredRoute())
