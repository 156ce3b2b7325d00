"""The routes: ways to make launches again. Each is one class (`routes.base.Route`) with one registration.

A route of a package of its own is found by its entry point of the group `kerneldb.routes`, which names the class; or
its module calls `register` when it is imported (`--import MODULE`). Nothing else need know of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kerneldb.codec import printable
from kerneldb.replay.errors import FAILURES, Reason, ReplayError, UnresolvedCallError, first_line
from kerneldb.replay.plan.work import Archive, Decision, Work
from kerneldb.replay.routes.base import SOURCES, Route, Search, Seen
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.wire.plan import MOST_KERNELS, Item, Plan

GROUP: Final = "kerneldb.routes"
NONE: Final = "none"
"""What tables show where no route claims the launches."""

_ROUTES: Final[dict[str, Route]] = {}


def register(route: Route) -> None:
    """Make `route` known under its name; the last one registered of a name wins, and is asked first.

    Raises ReplayError for anything but a route.
    """
    _load()
    _add(route)


def known() -> tuple[Route, ...]:
    """All routes, in the order in which they are asked what they claim. Raises ReplayError for a broken package."""
    _load()
    return tuple(reversed(_ROUTES.values()))


def of_users() -> tuple[Route, ...]:
    """Those that do not come with kerneldb."""
    return tuple(route for route in known() if not _is_ours(route))


def _is_ours(route: Route) -> bool:
    return type(route).__module__.startswith(f"{__name__}.")


def find(name: str) -> Route:
    """The route of that name. Raises UnresolvedCallError (MODULE) where nothing registered it."""
    _load()
    if name not in _ROUTES:
        listed = ", ".join(sorted(_ROUTES))
        raise UnresolvedCallError(Reason.MODULE, f"no route {name!r} here (known: {listed})")
    return _ROUTES[name]


@functools.cache
def _load() -> None:
    """Register the routes of kerneldb, those asked last first, then those of installed packages."""
    from kerneldb.replay.routes.aten import AtenRoute
    from kerneldb.replay.routes.collective import CollectiveRoute
    from kerneldb.replay.routes.memory import MemoryRoute
    from kerneldb.replay.routes.triton import TritonRoute
    from kerneldb.replay.routes.unrecorded import InferredRoute, InheritedRoute

    ours = (InferredRoute, MemoryRoute, AtenRoute, TritonRoute, CollectiveRoute, InheritedRoute)
    _ROUTES.update({kind.name: kind() for kind in ours})
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            _add(entry.load()())
        except (*FAILURES, ImportError, OSError, SyntaxError) as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            message = f"the route {entry.name} of the installed package {package} cannot be loaded: {first_line(error)}"
            raise ReplayError(message) from error


def _add(route: object) -> None:
    """Take a route; one of a name that is taken replaces that one, and is asked first. Raises ReplayError."""
    name = getattr(route, "name", None)
    if not isinstance(route, Route) or not name or name == NONE or route.source not in SOURCES:
        raise ReplayError(
            f"{type(route).__name__} is not a route: give an instance of a subclass of routes.base.Route, with a name"
        )
    if name in _ROUTES and _is_ours(_ROUTES[name]):
        raise ReplayError(f"a route {name!r} comes with kerneldb; give yours another name")
    _ROUTES.pop(name, None)
    _ROUTES[name] = route


def _of(item: Item) -> Route:
    """The route of `item`; one that does nothing of its own where that is not known here."""
    _load()
    return _ROUTES.get(item.route) or Route()


def verify(item: Item, call: Any, seen: Seen) -> CallMatch:
    """How close a call came. Raises UnresolvedCallError for an unknown route, TypeError for one that does not say."""
    match: object = find(item.route).verify(item, call, seen)
    if not isinstance(match, CallMatch):
        raise TypeError(f"the route {item.route!r} gives no grade for its call")
    return match


def search(item: Item) -> Search | None:
    """A search for the call of `item`, where its route is known and makes one."""
    return _of(item).search(item)


def ranks(item: Item) -> int:
    """How many devices take part in `item` at once; 1 where its route is not known here."""
    return _of(item).ranks(item)


def decide(works: Iterable[Work], archive: Archive, among: Sequence[Route] | None = None) -> list[Decision]:
    """Give each work to the first route that claims it; a work that none claims is decided to have none.

    Raises ReplayError, with the route and the kernel, where a route of somebody fails over it.
    """
    asked = known() if among is None else among
    planned = [(work, *_claimed(work, asked)) for work in map(_possible, works)]
    sources = gather((item for _, _, item in planned if item is not None), archive)
    return [_decision(*one, sources) for one in planned]


def _possible(work: Work) -> Work:
    """The work, with the reason why it cannot be in a plan where it cannot."""
    many = max(len(work.kernels), len(work.below))
    if many <= MOST_KERNELS:
        return work
    why_not = f"one call with {many:,} kernels: a plan has up to {MOST_KERNELS:,} of a call"
    return dataclasses.replace(work, why_not=why_not)


def _claimed(work: Work, asked: Sequence[Route]) -> tuple[Route | None, Item | None]:
    for route in asked if max(len(work.kernels), len(work.below)) <= MOST_KERNELS else ():
        with _blamed(route, work):
            if route.claims(work):
                return route, route.plan(work)
    return None, None


def _decision(work: Work, route: Route | None, item: Item | None, sources: Mapping[str, Any]) -> Decision:
    if route is None or item is None:
        return Decision(work, NONE, None, work.why_not)
    with _blamed(route, work):
        return Decision(work, route.name, item, route.lacks(item, sources))


@contextlib.contextmanager
def _blamed(route: Route, work: Work | Item) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        name = work.kernels[0].name if work.kernels else work.id
        raise ReplayError(f"the route {route.name!r} fails over {printable(name)}: {first_line(error)}") from error


def gather(items: Iterable[Item], archive: Archive) -> dict[str, Any]:
    """What the items need beside themselves, of all routes."""
    listed = list(items)
    sources: dict[str, Any] = {}
    for route in known():
        own = [item for item in listed if item.route == route.name]
        if own:
            with _blamed(route, own[0]):
                sources |= route.sources(own, archive)
    return sources


def consent(plan: Plan, *, allowed: bool) -> list[str]:
    """What to show the user before a plan is run: the code that it carries. Empty where there is none."""
    return [line for route in known() for line in route.consent(plan, allowed=allowed)]


def provide(sources: Mapping[str, Any], *, allowed: bool) -> None:
    """Hand the sources of a plan to all routes, in this process."""
    for route in known():
        route.provide(sources, allowed=allowed)
