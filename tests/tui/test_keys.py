"""The line of keys: what fits, what is always there, and clicks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kerneldb.tui.screens import PLACES
from kerneldb.tui.screens.sql import SqlEditor
from kerneldb.tui.widgets.header import Keys, Tabs
from tests.tui.piloting import driven, opened, press, settled, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


def line_of(app: KerneldbApp) -> str:
    """The last line of the screen."""
    return text_of(app).splitlines()[-1]


LAST = "/ Where  ? Keys  q Quit"


@pytest.mark.thorough
def test_keys_that_fit_are_whole_and_those_of_all_screens_stay(trace_database: Path) -> None:
    lines = {
        20: "/ Where  ? Keys",
        30: LAST,
        60: f"w Zoom in  s out  a Pan  g Gap  {LAST}",
        80: f"w Zoom in  s out  a Pan  g Gap  c Call  . Launch  {LAST}",
        120: f"w Zoom in  s out  a Pan  g Gap  c Call  . Launch  n Same  f Fit  m Measure  b Budget  {LAST}",
    }

    async def flow() -> None:
        async with opened(trace_database, first="timeline", size=(100, 24)) as (app, pilot):
            for width, shown in lines.items():
                await pilot.resize_terminal(width, 24)
                await settled(pilot)
                assert line_of(app).strip() == shown

    driven(flow)


@pytest.mark.thorough
def test_the_keys_follow_the_keyboard_and_no_widget_is_made(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, size=(100, 30)) as (app, pilot):
            assert "space Mark trace" in line_of(app)
            await press(pilot, "2")
            assert "g Level" in line_of(app)
            assert "Mark trace" not in line_of(app)
            assert not app.query_one(Keys).children
            await press(pilot, "slash")
            assert "g Level" not in line_of(app)

    driven(flow)


def test_keys_that_are_text_where_the_keyboard_is_are_not_offered(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            assert line_of(app).strip() == "^j Run  ^space Complete  esc Leave  f2 Catalogue  f3 History  f1 Keys"
            await press(pilot, "slash", "question_mark")
            assert app.pane.query_one(SqlEditor).text.startswith("/?")
            assert not app.editing
            await press(pilot, "f1")
            assert app.screen.query("HelpPanel")
            await press(pilot, "f1", "1", "escape", "2", "slash")
            assert app.editing
            assert line_of(app).strip() == "f1 Keys"
            await press(pilot, "escape")
            assert line_of(app).strip().endswith(LAST)

    driven(flow)


def test_a_click_presses_the_key(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(100, 30)) as (app, pilot):
            place = line_of(app).index("Level")
            await pilot.click(Keys, offset=(place, 0))
            await settled(pilot)
            assert app.choice.level == "signature"
            await pilot.click(Keys, offset=(98, 0))
            await settled(pilot)
            assert (app.choice.level, app.query_one(Tabs).active) == ("signature", "kernels")

    driven(flow)


@pytest.mark.thorough
def test_a_function_key_does_one_thing_on_all_screens_and_where_text_is_written(trace_database: Path) -> None:
    found: dict[str, set[str]] = {}

    def note(app: KerneldbApp) -> None:
        for key, active in app.screen.active_bindings.items():
            if re.fullmatch(r"f\d+", key):
                found.setdefault(key, set()).add(active.binding.action.removeprefix("app."))

    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for place in PLACES:
                await press(pilot, place.key)
                note(app)  # in the editor of SQL, which is last
            assert isinstance(app.focused, SqlEditor)
            await press(pilot, "escape")
            note(app)
            await press(pilot, "slash")
            note(app)

    driven(flow)
    assert found == {
        "f1": {"help"}, "f2": {"catalogue"}, "f3": {"statements"}, "f4": {"export"}, "f5": {"reload"},
        "f6": {"copy_menu"}, "f7": {"select_all"}, "f9": {"run"}, "f12": {"facts"},
    }  # fmt: skip
