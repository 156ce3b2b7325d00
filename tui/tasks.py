"""Tasks of screens, one at a time of a kind; what goes wrong in them is told, and ends nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from textual.css.query import NoMatches

from kerneldb.api.browsing import ReadCancelledError
from kerneldb.errors import KerneldbError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from textual.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")


class Teller(Protocol):
    """What runs tasks (a screen, or the application), and tells what became of them."""

    @property
    def leaving(self) -> bool:
        """Whether it is being taken down: its widgets may be gone."""

    def failed(self, group: str, message: str) -> None:
        """A task of `group` ended with an error."""

    def worked(self, group: str) -> None:
        """A task of `group` ended well."""

    def run_worker(self, work: Any, *, group: str, exclusive: bool) -> Worker[Any]:
        """Run `work` as a worker."""


async def told(teller: Teller, group: str, work: Awaitable[T] | Callable[[], Awaitable[T]]) -> T | None:
    """The result of `work`; a KerneldbError is told instead, and so ends no program.

    What is asked for may arrive when the widgets that show it have been taken down: that is no error then.
    """
    try:
        found = await (work() if callable(work) else work)
    except ReadCancelledError:
        return None
    except KerneldbError as error:
        if not teller.leaving:
            teller.failed(group, str(error))
        return None
    except NoMatches:
        if not teller.leaving:
            raise
        return None
    if not teller.leaving:
        teller.worked(group)
    return found


def supersede(
    node: Teller, group: str, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> Worker[T]:
    """Run `work` in place of what `node` runs in `group`, which is cancelled.

    The coroutine is made when its turn comes: one that is cancelled before would never have been awaited.
    """
    return node.run_worker(cast("Any", partial(work, *args, **kwargs)), group=group, exclusive=True)
