"""Keys in odd orders: screens that are asked for again before they are there, or left at once."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.widgets import Input

from kerneldb.tui.commands import Palette, copies
from kerneldb.tui.dialogs import Confirm, Window
from kerneldb.tui.screens import BY_NAME, PLACES
from kerneldb.tui.screens.timeline_data import FirstView
from kerneldb.tui.widgets.table import Table
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.tui.test_offered_keys import offered
from tests.tui.test_promptness import burst

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.pane import Pane


pytestmark = pytest.mark.thorough


def focused_pane(app: KerneldbApp) -> str | None:
    """The screen that has the keyboard."""
    nodes = app.focused.ancestors_with_self if app.focused is not None else ()
    return next((node.id for node in nodes if (node.id or "").startswith("pane-")), None)


OTHERS: Final = PLACES[1:]
"""All screens but the first."""


async def first_again(app: KerneldbApp, pilot: Pilot[Any], first: str = "overview") -> None:
    """Back to the first screen, as if no key had been pressed."""
    app.choose(where="", traces=(), level="kernel")
    app.show(first)
    await settled(pilot)


def test_a_screen_is_asked_for_again_before_it_is_there(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for place in OTHERS[::2]:
                burst(app, place.key, place.key, place.key)
                await settled(pilot)
                assert app.pane.state != "loading"
                assert focused_pane(app) == app.pane.id == f"pane-{place.name}"
                await first_again(app, pilot)

    driven(flow)


def test_a_screen_that_is_left_before_it_is_there_takes_no_keys(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for place in OTHERS:
                app.show(place.name)
                app.show("overview")
                await settled(pilot)
                assert focused_pane(app) == app.pane.id == "pane-overview"
            await press(pilot, "2")
            assert app.pane.id == "pane-kernels"

    driven(flow)


def test_keys_behind_that_of_a_screen_do_nothing_on_the_one_that_is_left(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for place in (BY_NAME["timeline"], *OTHERS[1::2]):
                burst(app, place.key, "enter")
                await settled(pilot)
                assert focused_pane(app) == app.pane.id == f"pane-{place.name}"
                assert app.choice.where == ""
                await first_again(app, pilot)

    driven(flow)


def test_the_bar_is_left_where_the_screen_is_not_there_yet(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for key, screen, last in (("2", "kernels", "enter"), ("8", "sql", "escape")):
                burst(app, key, "slash", *"n>5", last)
                await settled(pilot)
                burst(app, "j", "g")
                await settled(pilot)
                assert not app.editing
                assert focused_pane(app) == f"pane-{screen}"

    driven(flow)


def test_a_plan_that_is_not_there_yet_is_not_replayed(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            call = app.store.call
            seen: list[set[str]] = []

            async def looked(work: object) -> object:
                await pilot.pause(0.05)
                await pilot.press("enter")
                seen.append(offered(app))
                return await call(work)  # type: ignore[arg-type]

            monkeypatch.setattr(app.store, "call", looked)
            await pilot.press("7")
            await settled(pilot)
            assert ["⏎" in one for one in seen] == [False]
            assert "⏎" in offered(app)
            assert not app._notifications

    driven(flow)


def test_an_empty_table_opens_nothing(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            app.pane.query_one("SqlEditor").load_text("SELECT 1 AS one WHERE false")  # type: ignore[attr-defined]
            await press(pilot, "ctrl+j")
            table = app.pane.query_one(Table)
            table.focus()
            await settled(pilot)
            assert "0 rows" in text_of(app)
            assert "⏎" not in offered(app)

    driven(flow)


class Gate:
    """The database answers when the gate is open."""

    def __init__(self, app: KerneldbApp, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        for name in ("read", "call"):
            monkeypatch.setattr(app.store, name, self._late(getattr(app.store, name)))

    def _late(self, asked: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def late(*work: Any, **options: Any) -> Any:
            await self.open.wait()
            return await asked(*work, **options)

        return late


KEYS: Final = (
    *"wsadhjklnpNfm0vubx,.gGtz+-=<>", "left", "right", "up", "down", "home", "end", "pageup", "pagedown", "shift+left",
    "shift+right", "enter",
)  # fmt: skip


async def press_all(pane: Pane) -> None:
    """Do what the keys of a screen do; the characters are text on the screen SQL."""
    for key in KEYS:
        for binding in pane.BINDINGS:
            if (
                isinstance(binding, Binding)
                and key in binding.key.split(",")
                and (len(key) > 1 or pane.id != "pane-sql")
            ):
                await pane.run_action(binding.action)


def test_all_keys_of_a_screen_before_its_analysis_harm_nothing(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pressed while the database is asked acts on nothing, or on what comes; replays are not begun."""

    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            for place in PLACES:
                gate = Gate(app, monkeypatch)
                app.show(place.name)
                pane = app.pane
                while not pane.composed:
                    await asyncio.sleep(0.01)
                await press_all(pane)
                gate.open.set()
                await settled(pilot)
                assert pane.state != "error"
                await first_again(app, pilot, "sql")

    driven(flow)


def test_the_timeline_is_moved_before_it_is_there(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            gate, answer = asyncio.Event(), FirstView.get

            async def late(first: FirstView, *asked: Any) -> Any:
                await gate.wait()
                return await answer(first, *asked)

            monkeypatch.setattr(FirstView, "get", late)
            await pilot.press("4", "w", "s", "a", "home", "0", "f", "n")
            gate.set()
            await settled(pilot)
            assert app.pane.state == "ready"

    driven(flow)


def test_pages_of_the_palette_are_turned_before_it_is_drawn(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            await press(pilot, "ctrl+p")
            app.screen.query_one(CommandList)
            monkeypatch.setattr(CommandList, "_index_to_line", {})
            await pilot.press("pagedown", "pageup")
            monkeypatch.undo()
            await press(pilot, "escape", "ctrl+p", "pagedown", "escape")
            assert app.pane.id == "pane-sql"

    driven(flow)


def test_nothing_is_copied_of_what_a_sentence_hides(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="roofline") as (app, pilot):
            assert {"n", "r"} <= {entry.key for entry in copies(app)}
            app.choose(where="false")
            await settled(pilot)
            assert app.pane.state == "empty"
            assert {entry.key for entry in copies(app)} == {"w", "l"}

    driven(flow)


def test_keys_of_all_screens_work_on_one_that_is_not_there_yet(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            actions = [app.screen.active_bindings[key].binding.action for key in ("escape", "y", "ctrl+y")]
            for place, action in zip(OTHERS, itertools.cycle(actions), strict=False):
                app.show(place.name)
                await app.run_action(action)
                await settled(pilot)
                assert app.pane.id == f"pane-{place.name}"
                if len(app.screen_stack) > 1:
                    await press(pilot, "escape")

    driven(flow)


def test_a_window_is_answered_once(trace_database: Path) -> None:
    """Keys that come behind the one that closes it close nothing else, and give no second answer."""
    asked = {
        "y": (("n",) * 3, ("enter",) * 2, ("escape",) * 2),
        "yc": (("1",) * 2,),
        ":": (("escape",) * 2,),
        "f12": (("escape",) * 3,),
    }
    opening = {"y": ("y",), "yc": ("y", "c"), ":": ("colon",), "f12": ("f12",)}

    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            for name, closing in asked.items():
                for keys in closing:
                    app.clear_notifications()
                    await press(pilot, *opening[name])
                    assert isinstance(app.screen, Window)
                    burst(app, *keys)
                    await settled(pilot)
                    assert len(app.screen_stack) == 1
                    assert len(app._notifications) <= 1
                    assert app.pane.id == "pane-kernels"

    driven(flow)


def test_the_palette_takes_the_text_right_behind_its_key_and_is_answered_once(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            burst(app, "ctrl+p", *"quit")
            await settled(pilot)
            assert app.screen.query_one(Input).value == "quit"
            palette = app.screen
            assert isinstance(palette, Palette)
            commands = palette.query_one(CommandList)
            palette.dismiss(None)
            palette.dismiss(None)
            await settled(pilot)
            palette._refresh_command_list(commands, [], clear_current=True)
            assert len(app.screen_stack) == 1

    driven(flow)


def test_what_a_question_is_about_happens_once(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            agreed: list[bool | None] = []
            app.push_screen(Confirm("Sure?"), agreed.append)
            await settled(pilot)
            window = app.screen
            assert isinstance(window, Confirm)
            window.dismiss(True)
            window.dismiss(True)
            await settled(pilot)
            assert agreed == [True]
            assert len(app.screen_stack) == 1

    driven(flow)


def test_keys_right_behind_the_key_of_a_window_are_its_own(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            row = app.pane.query_one(Table).row
            assert row is not None
            burst(app, "y", "n")
            await settled(pilot)
            assert (app.pane.id, app.clipboard) == ("pane-kernels", row["kernel"])
            burst(app, "y", "escape", "g")
            await settled(pilot)
            assert (len(app.screen_stack), app.choice.level) == (1, "signature")
            burst(app, "colon", *"gemm")
            await settled(pilot)
            assert app.screen.query_one(Input).value == "gemm"
            await press(pilot, "enter")
            assert app.choice.where == "name ILIKE '%gemm%'"

    driven(flow)
