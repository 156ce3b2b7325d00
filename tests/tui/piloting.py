"""Driving the application in tests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from textual.worker import WorkerCancelled

from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.model import Choice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from textual.message_pump import MessagePump
    from textual.pilot import Pilot

CALM_TURNS: Final = 3
"""So many rounds without a message count as calm."""
GONE_S: Final = 1.0
"""A widget that does not answer for so long has been removed."""


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
                return


async def _calm(pilot: Pilot[Any]) -> None:
    """Wait until every widget has handled its messages, and those that came of them, and the screen is drawn."""
    app = pilot.app
    await pilot._wait_for_screen()
    await app.animator.wait_until_complete()
    if app._exit:
        return
    calm = 0
    while calm < CALM_TURNS:
        if calm == 0 or app.screen._callbacks:  # what widgets do once they are drawn
            drawn = asyncio.Event()
            app.screen.call_after_refresh(drawn.set)
            await drawn.wait()
        await _heard(pilot)
        busy = any(map(_has_mail, (app, *app.screen.walk_children(with_self=True)))) or app.screen._callbacks
        calm = 0 if busy else calm + 1


async def _heard(pilot: Pilot[Any]) -> None:
    """Wait until each widget has ended what it is doing: one that mounts others has an empty queue meanwhile."""
    app, answers = pilot.app, []
    for node in (app, *app.screen.walk_children(with_self=True)):
        heard = asyncio.Event()
        if node.is_running and node.call_later(heard.set):
            answers.append(asyncio.ensure_future(heard.wait()))
    if answers:
        _, gone = await asyncio.wait(answers, timeout=GONE_S)
        for answer in gone:
            answer.cancel()


def _has_mail(pump: MessagePump) -> bool:
    return pump.is_running and (bool(pump._next_callbacks) or not pump._message_queue.empty())


async def _at_once(*_: float) -> None:
    """In place of Textual's wait for an idle processor."""


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, one after the other, and wait until all is settled after each."""
    for key in keys:
        with mock.patch("textual.app.wait_for_idle", _at_once):
            await pilot.press(key)
        await settled(pilot)


@contextlib.asynccontextmanager
async def opened(
    path: Path, choice: Choice | None = None, *, first: str = "overview", size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
    """The running application on the database `path`, with its first screen filled."""
    app = KerneldbApp(path, choice or Choice(), first=first, watch=False)
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
