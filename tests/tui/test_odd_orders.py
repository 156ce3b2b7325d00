"""Keys in odd orders: screens that are asked for again before they are there, or left at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.widgets import Input

from kerneldb.tui.dialogs import Confirm, Window
from kerneldb.tui.finding import Palette, copies
from kerneldb.tui.screens import PLACES, Place
from kerneldb.tui.screens.timeline_asking import First
from kerneldb.tui.widgets.table import Table
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.tui.test_offered_keys import offered
from tests.tui.test_promptness import burst

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


def focused_pane(app: KerneldbApp) -> str | None:
    """The screen that has the keyboard."""
    nodes = app.focused.ancestors_with_self if app.focused is not None else ()
    return next((node.id for node in nodes if (node.id or "").startswith("pane-")), None)


@pytest.mark.parametrize("place", PLACES[1:], ids=lambda place: place.name)
def test_a_screen_is_asked_for_again_before_it_is_there(trace_database: Path, place: Place) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            burst(app, place.key, place.key, place.key)
            await settled(pilot)
            assert app.pane.state != "loading"
            assert focused_pane(app) == app.pane.id == f"pane-{place.name}"

    driven(flow)


@pytest.mark.parametrize("place", PLACES[1:], ids=lambda place: place.name)
def test_a_screen_that_is_left_before_it_is_there_takes_no_keys(trace_database: Path, place: Place) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            app.show(place.name)
            app.show("overview")
            await settled(pilot)
            assert focused_pane(app) == app.pane.id == "pane-overview"
            await press(pilot, "2")
            assert app.pane.id == "pane-kernels"

    driven(flow)


@pytest.mark.parametrize("place", PLACES[1:], ids=lambda place: place.name)
def test_keys_behind_that_of_a_screen_do_nothing_on_the_one_that_is_left(trace_database: Path, place: Place) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            burst(app, place.key, "enter")
            await settled(pilot)
            assert focused_pane(app) == app.pane.id == f"pane-{place.name}"
            assert app.choice.where == ""

    driven(flow)


@pytest.mark.parametrize("last", ["enter", "escape"])
def test_the_bar_is_left_where_the_screen_is_not_there_yet(trace_database: Path, last: str) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            burst(app, "2", "slash", *"n>5", last)
            await settled(pilot)
            burst(app, "j", "g")
            await settled(pilot)
            assert not app.editing
            assert focused_pane(app) == "pane-kernels"

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
            app.pane.query_one("SqlEdit").load_text("SELECT 1 AS one WHERE false")  # type: ignore[attr-defined]
            await press(pilot, "ctrl+j")
            table = app.pane.query_one(Table)
            table.focus()
            await settled(pilot)
            assert "0 rows" in text_of(app)
            assert "⏎" not in offered(app)

    driven(flow)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_all_keys_of_a_screen_before_its_answer_harm_nothing(
    trace_database: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pressed while the database is asked acts on nothing, or on what comes; replays are not begun."""
    keys = [key for key in "wsadhjklnpNfm0vubx,.gGtz+-=<>" if place.name != "sql"]
    named = ["left", "right", "up", "down", "home", "end", "pageup", "pagedown", "shift+left", "shift+right", "enter"]

    async def flow() -> None:
        async with opened(trace_database, first="sql" if place.name == "overview" else "overview") as (app, pilot):
            gate = asyncio.Event()
            read, call = app.store.read, app.store.call

            async def late_read(work: Any) -> Any:
                await gate.wait()
                return await read(work)

            async def late_call(work: Any) -> Any:
                await gate.wait()
                return await call(work)

            monkeypatch.setattr(app.store, "read", late_read)
            monkeypatch.setattr(app.store, "call", late_call)
            app.show(place.name)
            await pilot.pause(0.1)
            node = app.pane
            for key in (*keys, *named):
                for binding in node.BINDINGS:
                    if isinstance(binding, Binding) and key in binding.key.split(","):
                        await node.run_action(binding.action)
            await pilot.pause(0.1)
            gate.set()
            await settled(pilot)
            assert app.pane.state != "error"

    driven(flow)


@pytest.mark.parametrize("key", ["w", "s", "a", "home", "0", "f", "n"])
def test_the_timeline_is_moved_before_it_is_there(
    trace_database: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            gate, answer = asyncio.Event(), First.answer

            async def late(first: First, *asked: Any) -> Any:
                await gate.wait()
                return await answer(first, *asked)

            monkeypatch.setattr(First, "answer", late)
            await pilot.press("4")
            await pilot.press(key)
            await pilot.pause(0.1)
            gate.set()
            await settled(pilot)
            assert app.pane.state == "ready"

    driven(flow)


def test_pages_of_the_palette_are_turned_before_it_is_drawn(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            await press(pilot, "ctrl+p")
            app.screen.query_one(CommandList)
            monkeypatch.setattr(CommandList, "_index_to_line", {})
            await pilot.press("pagedown", "pageup")
            monkeypatch.undo()
            await press(pilot, "escape", "ctrl+p", "pagedown", "escape")
            assert app.pane.id == "pane-overview"

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


@pytest.mark.parametrize("place", PLACES[1:], ids=lambda place: place.name)
@pytest.mark.parametrize("key", ["escape", "y", "ctrl+y"])
def test_keys_of_all_screens_work_on_one_that_is_not_there_yet(trace_database: Path, place: Place, key: str) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            action = app.screen.active_bindings[key].binding.action
            app.show(place.name)
            await app.run_action(action)
            await settled(pilot)
            assert app.pane.id == f"pane-{place.name}"

    driven(flow)


@pytest.mark.parametrize(
    "keys",
    [
        ("y", "n", "n", "n"), ("y", "enter", "enter"), ("y", "escape", "escape"), ("y", "c", "1", "1"),
        ("colon", "escape", "escape"), ("f12", "escape", "escape", "escape"),
    ],
)  # fmt: skip
def test_a_window_is_answered_once(trace_database: Path, keys: tuple[str, ...]) -> None:
    """Keys that come behind the one that closes it close nothing else, and give no second answer."""

    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            *before, _ = dict.fromkeys(keys)
            await press(pilot, *(key for key in before if key != keys[-1]))
            window, answers = app.screen, len(app._notifications)
            assert isinstance(window, Window)
            burst(app, *(key for key in keys if key == keys[-1]))
            await settled(pilot)
            assert len(app.screen_stack) == 1
            assert len(app._notifications) - answers <= 1
            assert app.pane.id == "pane-kernels"

    driven(flow)


def test_the_palette_is_answered_once(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            await press(pilot, "ctrl+p")
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
        async with opened(trace_database) as (app, pilot):
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


def test_text_right_behind_the_key_of_a_window_is_its_text(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            burst(app, "colon", *"gemm")
            await settled(pilot)
            assert app.screen.query_one(Input).value == "gemm"
            await press(pilot, "enter")
            assert app.choice.where == "name ILIKE '%gemm%'"

    driven(flow)


def test_the_key_right_behind_y_is_the_entry(trace_database: Path) -> None:
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

    driven(flow)


def test_text_right_behind_the_key_of_the_palette_is_looked_for(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            burst(app, "ctrl+p", *"quit")
            await settled(pilot)
            assert app.screen.query_one(Input).value == "quit"

    driven(flow)
