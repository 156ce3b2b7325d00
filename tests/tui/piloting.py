"""Driving the application in tests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from textual._compositor import Compositor
from textual.worker import WorkerCancelled

from kerneldb.api.completion import Words
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.model import Choice, History
from kerneldb.tui.saved_history import SavedHistory
from kerneldb.tui.store import READY, Store
from kerneldb.tui.widgets.header import Facts, Status
from kerneldb.tui.widgets.where_bar import WhereBar

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
LONGEST_S: Final = 600.0
"""No flow of a test takes this long, beside other work too."""
END_S: Final = 20.0
"""So long is waited for the end of an application that was told to end."""
DEFAULT_THEME: Final = "textual-dark"
RENDER_UPDATE: Final = Compositor.render_update


async def settled(pilot: Pilot[Any], seconds: float = 60.0) -> None:
    """Wait until no worker runs any more and what they changed is drawn.

    `Pilot.pause` waits until the processor is idle, which takes a tenth of a second and more where others are at work.
    """
    await _quiet(pilot, seconds)
    _draw(pilot.app)


async def _quiet(pilot: Pilot[Any], seconds: float = 60.0) -> None:
    """Wait until no worker runs any more, and nothing came of what they changed."""
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
    """Press keys, one after the other, and wait until all is quiet after each, and drawn after the last."""
    for key in keys:
        with mock.patch("textual.app.wait_for_idle", _at_once):
            await pilot.app._press_keys([key])
        await _quiet(pilot)
    _draw(pilot.app)


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


Size = tuple[int, int]


@contextlib.asynccontextmanager
async def started(
    path: Path, choice: Choice | None = None, *, first: str = "overview", size: Size = (120, 36)
) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
    """An application of its own on the database `path`, with its first screen filled."""
    app = KerneldbApp(path, choice or Choice(), first=first, watch=False)
    with drawn_at_rest():
        async with app.run_test(size=size, notifications=True) as pilot:
            await settled(pilot)
            yield app, pilot


class Lasting:
    """One application for test after test, on a loop that stands still between them.

    A start is most of the work of a short test. The next test gets screens that are made anew, as for another file
    that is opened with `o`. One that ended, or in which a test failed, is replaced.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stack = contextlib.AsyncExitStack()
        self._pilot: Pilot[Any] | None = None
        self._lent = False

    def run(self, flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a flow to its end."""
        self._runner.run(_bounded(flow))

    def lends(self) -> bool:
        """Whether who asks runs on the loop of the application, and nobody else has it."""
        return asyncio.get_running_loop() is self._runner.get_loop() and not self._lent

    @contextlib.asynccontextmanager
    async def lent(
        self, path: Path, choice: Choice, first: str, size: Size
    ) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
        """The application on the database `path`, with its first screen filled."""
        self._lent = True
        try:
            with drawn_at_rest():
                pilot = await self._begun(path, choice, first, size)
                assert isinstance(pilot.app, KerneldbApp)
                yield pilot.app, pilot
                await self._given_back(pilot, pilot.app)
        except BaseException:
            await self.end()
            raise
        finally:
            self._lent = False

    async def end(self) -> None:
        """Let the application end, and raise what it died of."""
        self._pilot = None
        await self._stack.aclose()

    def close(self) -> None:
        """End all."""
        self._runner.run(self.end())
        self._runner.close()

    async def _begun(self, path: Path, choice: Choice, first: str, size: Size) -> Pilot[Any]:
        if self._pilot is None:
            app = KerneldbApp(path, choice, first=first, watch=False)
            self._pilot = await self._stack.enter_async_context(app.run_test(size=size, notifications=True))
        else:
            await _begin(self._pilot, path, choice, first, size)
        await settled(self._pilot)
        return self._pilot

    async def _given_back(self, pilot: Pilot[Any], app: KerneldbApp) -> None:
        if _ends(app) or not app.is_running or any(pane.busy() for pane in app._panes.values()):
            await self.end()
        else:
            await _clear(pilot, app)


async def _begin(pilot: Pilot[Any], path: Path, choice: Choice, first: str, size: Size) -> None:
    """Begin as a new application does, on a cleared one."""
    app = pilot.app
    assert isinstance(app, KerneldbApp)
    if app.size != size:
        with mock.patch("textual.pilot.wait_for_idle", _at_once):
            await pilot.resize_terminal(*size)
    app.store, app.history, app._first = Store(path, app._condition_changed), History(choice), first
    app.query_one(Status).rename(app.store.path.name)
    app.on_mount()


async def _clear(pilot: Pilot[Any], app: KerneldbApp) -> None:
    """Leave nothing of what a test did."""
    await _calm(pilot)  # what was asked for has begun, so that it can be told to stop
    app.workers.cancel_all()
    for timer in tuple(app._timers):
        timer.stop()
    while len(app.screen_stack) > 1:
        await app.pop_screen()
    app.screen.set_focus(None)
    await app.screen.query("#panes > *, HelpPanel").remove()
    app.screen.remove_class("-zoomed")
    app.clear_notifications()
    await _quiet(pilot)
    app.store._database = None  # its lease ends by itself, or goes on where the next test reads the same file
    app.store.close()
    _forget(app)


def _forget(app: KerneldbApp) -> None:
    app._panes.clear()
    app._made.clear()
    app.saved, app.history = SavedHistory(), History(Choice())
    app.signature = app.time_ns = app.pointed = app._held = None
    app.marked, app._busy, app._clipboard = (), 0, ""
    app.theme = DEFAULT_THEME
    app.app_resume_signal.unsubscribe(app)
    status, bar = app.query_one(Status), app.query_one(WhereBar)
    status.facts, status.condition, status.choice, status.asking = Facts(), READY, None, False
    bar.suggester.words = Words()
    bar.accept("")


_LASTING: list[Lasting] = []
"""The one application, or none."""


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """From now on, one application serves all flows that are `driven`."""
    kept = Lasting()
    _LASTING.append(kept)
    try:
        yield
    finally:
        _LASTING.remove(kept)
        kept.close()


@contextlib.asynccontextmanager
async def opened(
    path: Path, choice: Choice | None = None, *, first: str = "overview", size: Size = (120, 36)
) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
    """The running application on the database `path`, with its first screen filled."""
    lender = next((one for one in _LASTING if one.lends()), None)
    if lender is None:
        async with started(path, choice, first=first, size=size) as found:
            yield found
    else:
        async with lender.lent(path, choice or Choice(), first, size) as found:
            yield found


def driven(flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a flow to its end, on the application of the tests before it where there is one."""
    if _LASTING:
        _LASTING[-1].run(flow)
    else:
        asyncio.run(_bounded(flow))


async def _bounded(flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A flow that waits for what never comes ends after a time that no other one takes."""
    async with asyncio.timeout(LONGEST_S):
        await flow()


def text_of(app: KerneldbApp) -> str:
    """The characters on the screen, line by line."""
    height = app.size.height
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines[:height])


def unwrapped(app: KerneldbApp) -> str:
    """The characters on the screen without white space and frames: text that may be wrapped, such as a long path."""
    return "".join(character for character in text_of(app) if character not in " \n│┃▏▕▎▊")
