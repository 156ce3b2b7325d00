"""Tasks of screens, one at a time of a kind; their errors are shown and end nothing."""

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


class TaskOwner(Protocol):
    """What runs tasks: a screen, or the application."""

    @property
    def leaving(self) -> bool:
        """Whether it is being taken down: its widgets may be gone."""

    def failed(self, group: str, message: str) -> None:
        """A task of `group` ended with an error."""

    def worked(self, group: str) -> None:
        """A task of `group` ended well."""

    def run_worker(self, work: Any, *, group: str, exclusive: bool) -> Worker[Any]:
        """Run `work` as a worker."""


async def guarded(owner: TaskOwner, group: str, work: Awaitable[T] | Callable[[], Awaitable[T]]) -> T | None:
    """The result of `work`; a KerneldbError goes to `owner.failed` instead, and so ends no program.

    What is asked for may arrive when the widgets that show it have been taken down: that is no error then.
    """
    try:
        found = await (work() if callable(work) else work)
    except ReadCancelledError:
        return None
    except KerneldbError as error:
        if not owner.leaving:
            owner.failed(group, str(error))
        return None
    except NoMatches:
        if not owner.leaving:
            raise
        return None
    if not owner.leaving:
        owner.worked(group)
    return found


def supersede(
    owner: TaskOwner, group: str, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> Worker[T]:
    """Run `work` in place of what `owner` runs in `group`, which is cancelled.

    The coroutine is made when it is started: one that is cancelled before would never have been awaited.
    """
    return owner.run_worker(cast("Any", partial(work, *args, **kwargs)), group=group, exclusive=True)
