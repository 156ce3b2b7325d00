"""Texts of traces are foreign: whatever they hold, no control character of them reaches the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from textual.widget import Widget
from textual.widgets import Static

from kerneldb.tui.screens import PLACES
from kerneldb.warehouse import Warehouse
from tests.tui.odd_traces import closed
from tests.tui.piloting import driven, opened, press
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

CLEAR = "\x1b[2J\x1b]0;owned\x07\x9b31m\0\u202e\nforged"
"""Clears the screen, sets the title, turns to red, ends a text of C, turns the direction of writing, begins a line."""
RAW = re.compile("[\x1b\x07\x9b\0\u202e]|\nforged")
"""What of it no widget may hold: most never comes to the screen, where a new line looks like one of ours."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Two traces whose texts all hold escape sequences."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    for name in ("one", "two"):
        launches = (
            Launch("gemm", 0, 300, op=f"aten::mm{CLEAR}", phase=f"forward{CLEAR}"),
            Launch("add", 400, 200, phase=f"backward{CLEAR}"),
        )
        warehouse.commit(make(name, launches, label=f"label{CLEAR}"))
    with warehouse.connection(read_only=False) as con:
        for table, column in (
            ("kernel_names", "name"),
            ("kernel_names", "short_name"),
            ("devices", "name"),
            ("traces", "name"),
        ):
            con.execute(f"UPDATE {table} SET {column} = {column} || ?", [CLEAR])
    return closed(warehouse)


def raw(app: KerneldbApp) -> dict[str, str]:
    """Widgets whose text has something that is no escape; Textual leaves most of it out when it draws the text."""
    shown = {repr(widget): widget.render() for widget in app.screen.walk_children(Widget) if widget.display}
    texts = {name: str(getattr(visual, "plain", visual)) for name, visual in shown.items()}
    return {name: text for name, text in texts.items() if RAW.search(text)}


def drawn(app: KerneldbApp) -> str:
    """All that is sent to the terminal."""
    return "".join(segment.text for strip in app.screen._compositor.render_strips() for segment in strip)


def test_no_control_character_reaches_the_terminal(hostile: Path) -> None:
    async def flow() -> None:
        async with opened(hostile, size=(160, 48)) as (app, pilot):
            for place in PLACES:
                await press(pilot, place.key)
                assert (drawn(app).isprintable(), raw(app)) == (True, {}), place.name
            await press(pilot, "4", "m", "y")
            assert (drawn(app).isprintable(), raw(app)) == (True, {})
            await press(pilot, "escape", "d")
            assert (drawn(app).isprintable(), raw(app)) == (True, {})
            app.notify(f"traces{CLEAR}", markup=False)
            await press(pilot, "2", "down")
            assert drawn(app).isprintable()

    driven(flow)


def test_the_timeline_shows_control_characters_as_escapes(hostile: Path) -> None:
    async def flow() -> None:
        async with opened(hostile, first="timeline", size=(160, 48)) as (app, _):
            about = str(app.query_one("#launch", Static).content)
            assert about.replace("\n", "").isprintable()
            assert "phase forward\\x1b[2J" in about
            assert "gemm\\x1b[2J" in about
            assert "op aten::mm\\x1b[2J" in about
            assert "phases" in drawn(app)
            assert "forward\\x1b" in drawn(app)

    driven(flow)
