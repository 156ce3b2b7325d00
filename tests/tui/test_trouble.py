"""What goes wrong under the hands: the file vanishes, is overwritten or held, a condition fails on single rows."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input, KeyPanel

import kerneldb
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.kernel import Histogram, KernelPane
from kerneldb.tui.widgets.gantt import Gantt
from kerneldb.tui.widgets.header import Status, Tabs
from kerneldb.tui.widgets.table import Table
from kerneldb.tui.widgets.where_bar import WhereBar
from tests.tui.piloting import driven, opened, press, settled, text_of, unwrapped
from tests.tui.test_app import GEMM, write_where
from tests.tui.test_promptness import burst
from tests.tui.test_store import holder

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough

FAILS = "cast(name AS INTEGER) > 3"
"""Binds; no launch has such a name."""


def remove(path: Path) -> None:
    path.unlink()


def overwrite(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(path.stat().st_size))


@pytest.mark.parametrize(("spoil", "first", "keys"), [(remove, "timeline", "w.dN"), (overwrite, "kernel", ".,n")])
def test_a_spoilt_file_is_said_and_what_was_read_stays(database: Path, spoil: Any, first: str, keys: str) -> None:
    names = {".": "full_stop", ",": "comma"}

    async def flow() -> None:
        async with opened(database, first=first) as (app, pilot):
            good = database.read_bytes()
            spoil(database)
            app.store.forget()
            for key in keys:
                await press(pilot, names.get(key, key))
                assert app.is_running
                assert app.pane.state == "error"
                assert "k.duckdb" in unwrapped(app)
                rows = app.query_one(Gantt).picture.rows if first == "timeline" else app.query_one(Histogram).bins
                assert len(rows) > 0
            database.write_bytes(good)
            app.store.forget()
            await press(pilot, names.get(keys[-1], keys[-1]))
            assert app.pane.state == "ready"

    driven(flow)


def test_going_somewhere_in_a_file_that_is_gone_is_a_sentence(database: Path) -> None:
    async def flow() -> None:
        async with opened(database) as (app, pilot):
            database.unlink()
            app.store.forget()
            await press(pilot, "colon")
            app.screen.query_one(Input).value = "nvj"
            await press(pilot, "enter")
            assert app.is_running
            (told,) = app._notifications
            assert "no database" in told.message.lower() or str(database) in told.message

    driven(flow)


def test_a_condition_that_fails_on_rows_is_refused(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(GEMM), first="kernels") as (app, pilot):
            for screen in ("kernels", "timeline", "kernel"):
                app.show(screen)
                await settled(pilot)
                await write_where(pilot, FAILS)
                assert app.choice.where == GEMM
                assert FAILS not in [*app.history.texts(), *app.saved.texts("where")]
                assert "Could not convert" in text_of(app)
                assert app.pane.state == "ready"
                await press(pilot, "escape")
            app.history.add(Choice(FAILS))
            await press(pilot, "n", "p", "4", "n", "w")
            assert app.is_running

    driven(flow)


def test_the_kernel_screen_answers_while_the_file_is_held(database: Path) -> None:
    async def flow() -> None:
        async with opened(database, first="kernel") as (app, pilot):
            app.store.forget()
            with holder(database):
                burst(app, "full_stop", "n", "2")
                async with asyncio.timeout(60):
                    while app.query_one(Tabs).active != "kernels" or app.query_one(Status).condition.kind != "locked":
                        await asyncio.sleep(0.02)
            await settled(pilot)
            assert app.query_one(Tabs).active == "kernels"

    driven(flow)


def test_steps_in_quick_succession_all_count(trace_database: Path) -> None:
    order = [row["signature_id"] for row in kerneldb.open(trace_database).top("signature").rows()]

    async def flow() -> None:
        async with opened(trace_database, first="kernel") as (app, pilot):
            burst(app, "n", "n", "n", "p")
            await settled(pilot)
            assert app.signature == order[2]

    driven(flow)


@pytest.mark.parametrize("key", ["2", *(pytest.param(key, marks=pytest.mark.volume) for key in "3458")])
def test_the_end_while_a_screen_is_being_made(trace_database: Path, key: str) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            burst(app, key, "q")
            async with asyncio.timeout(60):
                while app.is_running:
                    await asyncio.sleep(0.01)
            assert pilot.app.return_code == 0

    driven(flow)


def test_escape_takes_a_refused_condition_back_and_nothing_else(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            await write_where(pilot, GEMM)
            await write_where(pilot, "categry = 3")
            assert app.query_one(WhereBar).has_class("-bad")
            await press(pilot, "escape")
            assert app.choice.where == app.query_one(WhereBar).line.value == GEMM
            assert not app.query_one(WhereBar).has_class("-bad")
            await press(pilot, "escape")
            assert app.choice.everything

    driven(flow)


def test_the_panel_of_keys_is_scrolled_by_keys(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="timeline", size=(80, 24)) as (app, pilot):
            lane = app.pane.lane  # type: ignore[attr-defined]
            await press(pilot, "question_mark")
            panel = app.screen.query_one(KeyPanel)
            assert panel.max_scroll_y > 0
            before = panel.scroll_offset.y
            assert "About this session" not in text_of(app)
            pages = 0
            while panel.scroll_offset.y < panel.max_scroll_y:
                await press(pilot, "pagedown")
                pages += 1
                assert pages < 20
            assert "Quit" in text_of(app)
            for _ in range(pages):
                await press(pilot, "pageup")
            assert panel.scroll_offset.y == before == 0
            assert app.pane.lane == lane  # type: ignore[attr-defined]

    driven(flow)


def pane_of(app: KerneldbApp) -> KernelPane:
    pane = app.pane
    assert isinstance(pane, KernelPane)
    return pane


def test_the_kernel_screen_narrows_the_condition(trace_database: Path) -> None:
    async def narrowed(app: KerneldbApp, pilot: Any, *keys: str) -> None:
        page = pane_of(app).page
        assert page is not None
        await press(pilot, *keys)
        assert app.choice.where.startswith(f"{GEMM} AND signature_id = '{page.signature_id}'")
        assert app.choice.level == "launch"
        assert app.pane.id == "pane-kernels"
        assert len(app.pane.query_one(Table).rows) > 0
        where = app.choice.where
        await press(pilot, "3", "l")
        assert app.choice.where == where
        app.choose(where=GEMM, traces=(), level="kernel")
        app.show("kernel")
        await settled(pilot)

    async def flow() -> None:
        async with opened(trace_database, Choice(GEMM), first="kernel", size=(120, 40)) as (app, pilot):
            pane = pane_of(app)
            assert "all launches of the signature" in text_of(app)
            await narrowed(app, pilot, "l")
            pane.query_one(Histogram).focus()
            await narrowed(app, pilot, "right", "enter")
            times = pane.query_one("#overview-times", Table)
            times.focus()
            row = times.row
            assert row is not None
            await press(pilot, "enter")
            assert app.choice.traces == (row["trace"],)
            await press(pilot, "left_square_bracket", "3")
            times.focus()
            await narrowed(app, pilot, "enter")

    driven(flow)
