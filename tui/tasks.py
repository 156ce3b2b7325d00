"""Tasks of screens, one at a time of a kind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.dom import DOMNode
    from textual.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")


def supersede(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> Worker[T]:
    """Run `work` in place of what `node` runs in `group`, which is cancelled.

    The coroutine is made when its turn comes: one that is cancelled before would never have been awaited.
    """
    return node.run_worker(cast("Any", partial(work, *args, **kwargs)), group=group, exclusive=True)
