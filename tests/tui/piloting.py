"""Driving the application in tests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from textual._compositor import Compositor
from textual.worker import WorkerCancelled

from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.model import Choice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.pilot import Pilot
    from textual.screen import Screen

CALM_TURNS: Final = 3
"""So many turns of the loop at which nothing is left to do count as calm."""
NAP_S: Final = 0.002
"""The pause before a widget is looked at again that waits for something outside of the loop."""
DRAWN_S: Final = 0.1
"""So long is waited for a drawing before it is looked whether the same screen is still in front."""
GONE_S: Final = 5.0
"""A widget that works for so long has been removed."""
END_S: Final = 20.0
"""So long is waited for the end of an application that was told to end."""
RENDER_UPDATE: Final = Compositor.render_update


async def settled(pilot: Pilot[Any], seconds: float = 60.0) -> None:
    """Wait until no worker runs any more and what they changed is drawn.

    `Pilot.pause` waits until the processor is idle, which takes a tenth of a second and more where others are at work.
    """
    async with asyncio.timeout(seconds):
        while True:
            await _calm(pilot)
            try:
                await pilot.app.workers.wait_for_complete()
            except WorkerCancelled:  # another one took its place; or it is us that are told to wait no longer
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from None
            await _calm(pilot)
            if all(worker.is_finished for worker in pilot.app.workers):
                return _draw(pilot.app)


async def _calm(pilot: Pilot[Any]) -> None:
    """Wait until every widget has handled its messages, and those that came of them, and the screen is drawn."""
    app, calm = pilot.app, 0
    await app.animator.wait_until_complete()
    while calm < CALM_TURNS:
        if _ends(app):
            return await _ended(app)
        if calm == 0 or _is_undrawn(app.screen):
            await _drawn(pilot)
        calm = 0 if await _worked(app) or _is_undrawn(app.screen) else calm + 1
    return None


def _is_undrawn(screen: Screen[Any]) -> bool:
    """Whether widgets get other places, or something to do, once a timer of the screen draws it."""
    return bool(screen._callbacks or screen._layout_required or screen._scroll_required or screen._recompose_required)


async def _ended(app: App[Any]) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + END_S
    while app.is_running and loop.time() < until:
        await asyncio.sleep(NAP_S)


def _ends(app: App[Any]) -> bool:
    return app._exit or app._exception is not None


async def _drawn(pilot: Pilot[Any]) -> None:
    """Wait until the screen is drawn. One that another screen came over meanwhile is not drawn, and calls nobody."""
    drawn, asked = asyncio.Event(), None
    while not (drawn.is_set() or _ends(pilot.app)):
        if asked is not pilot.app.screen:
            asked = pilot.app.screen
            asked.call_after_refresh(drawn.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(drawn.wait(), DRAWN_S)


async def _worked(app: App[Any]) -> bool:
    """Wait until no widget works and the loop has nothing else to do; whether there was something to wait for.

    Nobody is asked: a message to each widget for every look would be most of what the screens do in tests.
    """
    loop, looks = asyncio.get_running_loop(), 0
    ends = loop.time() + GONE_S
    while not _ends(app):
        await asyncio.sleep(0)
        ready = bool(loop._ready)  # type: ignore[attr-defined]
        if not ready and not any(map(_at_work, (app, *app.screen.walk_children(with_self=True)))):
            return looks > 0
        if loop.time() > ends:
            return False
        looks += 1
        if not ready:
            await asyncio.sleep(NAP_S)
    return False


def _at_work(pump: MessagePump) -> bool:
    """Whether a widget has messages, or handles one: it does not wait for the next. Some mount others meanwhile."""
    queue = pump._message_queue
    return pump.is_running and bool(pump._next_callbacks or queue.values or not queue.ready_event._waiters)


async def _at_once(*_: float) -> None:
    """In place of Textual's wait for an idle processor."""


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, one after the other, and wait until all is settled after each."""
    for key in keys:
        with mock.patch("textual.app.wait_for_idle", _at_once):
            await pilot.app._press_keys([key])
        await settled(pilot)


@contextlib.contextmanager
def drawn_at_rest() -> Iterator[None]:
    """Draw when all is settled. A terminal gets each state on the way, most of which nobody could see."""

    def later(compositor: Compositor, full: bool = False, **options: Any) -> Any:
        """What has changed stays noted. The whole screen is asked for to be looked at."""
        return RENDER_UPDATE(compositor, full, **options) if full else None

    with mock.patch.object(Compositor, "render_update", later):
        yield


def _draw(app: App[Any]) -> None:
    compositor = app.screen._compositor
    if compositor._dirty_regions and not _ends(app):
        RENDER_UPDATE(compositor, screen_stack=app._background_screens)


@contextlib.asynccontextmanager
async def opened(
    path: Path, choice: Choice | None = None, *, first: str = "overview", size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
    """The running application on the database `path`, with its first screen filled."""
    app = KerneldbApp(path, choice or Choice(), first=first, watch=False)
    with drawn_at_rest():
        async with app.run_test(size=size, notifications=True) as pilot:
            await settled(pilot)
            yield app, pilot


def driven(flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a flow to its end."""
    asyncio.run(flow())


def text_of(app: KerneldbApp) -> str:
    """The characters on the screen, line by line."""
    height = app.size.height
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines[:height])


def unwrapped(app: KerneldbApp) -> str:
    """The characters on the screen without white space and frames: text that may be wrapped, such as a long path."""
    return "".join(character for character in text_of(app) if character not in " \n│┃▏▕▎▊")
