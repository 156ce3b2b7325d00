"""The application: screens, Selection, history, copies, exports, and a file that is locked, gone or changed."""

from __future__ import annotations

import asyncio
import random
import shlex
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from textual.app import App
from textual.widgets import Input, Static

import kerneldb
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.dialogs import AskPath, AskText, Confirm, CopyMenu, Page
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import PLACES
from kerneldb.tui.widgets.header import Facts, Status, Tabs
from kerneldb.tui.widgets.table import Table
from kerneldb.tui.widgets.where_bar import WhereBar
from tests.tui.piloting import driven, opened, press, settled, text_of, unwrapped
from tests.tui.test_store import holder

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

GEMM = "category = 'GEMM'"


async def write_where(pilot: Pilot[Any], text: str) -> None:
    await press(pilot, "slash")
    pilot.app.query_one("#where-input", Input).value = text
    await press(pilot, "enter")


@pytest.mark.thorough
def test_the_numbers_show_the_screens(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for place in PLACES:
                await press(pilot, place.key)
                assert app.query_one(Tabs).active == place.name
                assert [pane.id for pane in app.query("#panes > *") if pane.display] == [f"pane-{place.name}"]
                assert app.pane.state in {"ready", "empty"}, (place.name, app.pane.state)
                await press(pilot, "escape")
            for key, name in (
                ("1", "overview"),
                ("t", "timeline"),
                ("1", "overview"),
                ("r", "replay"),
                ("2", "kernels"),
            ):
                await press(pilot, key)
                assert app.query_one(Tabs).active == name
            await press(pilot, "ctrl+e")
            assert app.query_one(Tabs).active == "sql"
            await pilot.click(Tabs, offset=(2, 0))
            await settled(pilot)
            assert app.query_one(Tabs).active == "overview"

    driven(flow)


def test_a_condition_holds_for_all_screens_and_is_stepped_through(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            await write_where(pilot, GEMM)
            assert app.choice.where == GEMM
            matched = (
                kerneldb.open(trace_database).sql("SELECT count(*) AS n FROM selection", where=GEMM).rows()[0]["n"]
            )
            assert app.query_one(Status).facts.matched == matched
            assert f"{matched:,} of " in text_of(app)
            await press(pilot, "1")
            assert "GEMM" in text_of(app)
            assert "ELEMENTWISE" not in text_of(app)
            app.narrow("duration_ns > 5000 OR duration_ns < 0")
            await settled(pilot)
            assert app.choice.where == f"{GEMM} AND (duration_ns > 5000 OR duration_ns < 0)"
            await press(pilot, "left_square_bracket")
            assert app.choice.where == GEMM
            assert app.query_one(WhereBar).line.value == GEMM
            await press(pilot, "left_square_bracket", "left_square_bracket")
            assert app.choice.everything
            await press(pilot, "right_square_bracket", "right_square_bracket", "escape")
            assert app.choice.where == GEMM
            await press(pilot, "slash", "up", "up")
            assert app.query_one(WhereBar).line.value == GEMM
            await press(pilot, "down", "ctrl+u", "escape")
            assert app.query_one(WhereBar).line.value == GEMM
            assert app.pane.query_one("#overview-top", Table).has_focus

    driven(flow)


def test_completion_offers_columns_and_values_of_the_file(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            await press(pilot, "slash", *"cat", "right", *" = 'ge", "right", "enter")
            assert app.choice.where == "category = 'GEMM'"
            words = {one.word for one in app.query_one(WhereBar).suggester.words.all}
            assert "duration_ns" in words
            assert "'step'" in words

    driven(flow)


def test_a_bad_condition_says_why_and_the_rows_stay(trace_database: Path) -> None:
    bad = {
        "category = = 3": "syntax error",
        "categry = 'GEMM'": "near columns: category",
        "true) UNION ALL SELECT 1": "syntax error",
        "name::INTEGER > 3": "Could not convert",
    }

    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(100, 30)) as (app, pilot):
            before = len(app.pane.query_one(Table).rows)
            for where, message in bad.items():
                await write_where(pilot, where)
                shown = text_of(app)
                assert message in shown
                if message == "syntax error" and not duckdb.__version__.startswith("1."):
                    assert any(line.strip() == "^" for line in shown.splitlines())
                assert len(app.pane.query_one(Table).rows) == before > 0
            await write_where(pilot, GEMM)
            assert not any(message in text_of(app) for message in bad.values())
            assert 0 < len(app.pane.query_one(Table).rows) < before

    driven(flow)


@pytest.mark.parametrize(
    ("choice", "message"),
    [(Choice("oop = 1"), "near columns: op"), (Choice("", ("stepp",)), "near: step")],
)
def test_a_bad_start_says_why_and_shows_everything(trace_database: Path, choice: Choice, message: str) -> None:
    async def flow() -> None:
        async with opened(trace_database, choice, first="kernels") as (app, _):
            assert message in text_of(app)
            assert app.choice.everything
            assert len(app.pane.query_one(Table).rows) > 0

    driven(flow)


def test_what_is_shown_is_copied_as_a_command_that_selects_the_same(trace_database: Path) -> None:
    async def flow() -> None:
        choice = Choice(GEMM, ("step",))
        async with opened(trace_database, choice, first="kernels") as (app, pilot):
            await press(pilot, "ctrl+y")
            expected = [
                "kerneldb",
                "--db",
                str(trace_database),
                "top",
                "--by",
                "kernel",
                "--where",
                GEMM,
                "--trace",
                "step",
            ]
            assert shlex.split(app.clipboard) == expected
            await press(pilot, "y")
            assert isinstance(app.screen, CopyMenu)
            await press(pilot, "w")
            assert app.clipboard == GEMM
            await press(pilot, "y", "n")
            row = app.pane.query_one(Table).row
            assert row is not None
            assert app.clipboard == row["kernel"]
            await press(pilot, "y", "down", "escape")
            assert app.clipboard == row["kernel"]
            await press(pilot, "y", "s")
            assert app.clipboard == f"FROM kernels WHERE trace IN ('step') AND {GEMM}"

    driven(flow)


def test_export_writes_all_selected_launches(trace_database: Path, tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(GEMM)) as (app, pilot):
            await press(pilot, "e")
            assert isinstance(app.screen, AskPath)
            line = app.screen.query_one(Input)
            for bad, reason in ((tmp_path / "x.doc", "must end"), (tmp_path / "no" / "x.csv", "not a folder")):
                line.value = str(bad)
                await press(pilot, "enter")
                assert reason in str(app.screen.query_one(".window--problem", Static).content)
            line.value = str(tmp_path / "x.parquet")
            await press(pilot, "enter", "e")
            app.screen.query_one(Input).value = str(tmp_path / "x.parquet")
            await press(pilot, "enter")
            assert "exists already" in str(app.screen.query_one(".window--problem", Static).content)
            await press(pilot, "escape")

    driven(flow)
    expected = kerneldb.open(trace_database).sql("SELECT launch_index FROM selection", where=GEMM)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == len(expected) > 0


def test_going_to_signatures_traces_and_names(trace_database: Path) -> None:
    signature = kerneldb.open(trace_database).sql("SELECT min(signature_id) AS id FROM kernels").rows()[0]["id"]

    async def go(app: KerneldbApp, pilot: Pilot[Any], text: str) -> None:
        await press(pilot, "colon")
        assert isinstance(app.screen, AskText)
        app.screen.query_one(Input).value = text
        await press(pilot, "enter")

    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            await go(app, pilot, signature[:14].upper())
            assert app.signature == signature
            assert app.query_one(Tabs).active == "kernel"
            await go(app, pilot, "step")
            assert app.choice.traces == ("step",)
            await go(app, pilot, "it's")
            assert app.choice.where == "name ILIKE '%it''s%'"
            assert app.query_one(Tabs).active == "kernels"
            found = app.pane.state
            await press(pilot, "escape")
            assert (found, app.pane.state) == ("empty", "ready")

    driven(flow)


def test_help_palette_zoom_and_facts(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            await press(pilot, "question_mark")
            assert app.screen.query("HelpPanel")
            await press(pilot, "escape")
            assert not app.screen.query("HelpPanel")
            await press(pilot, "f1", "f1")
            assert not app.screen.query("HelpPanel")
            await press(pilot, "z")
            assert not app.query_one(Tabs).display
            await press(pilot, "z")
            assert app.query_one(Tabs).display
            await press(pilot, "f12")
            assert isinstance(app.screen, Page)
            assert trace_database.name in text_of(app)
            await press(pilot, "y", "escape")
            assert str(trace_database) in app.clipboard
            titles = [command.title for command in app.get_system_commands(app.screen)]
            assert len(titles) == len(set(titles)) > 20
            await press(pilot, "ctrl+p", *"theme", "space", *"light")
            await pilot.pause(0.5)
            await press(pilot, "down", "enter")
            assert app.theme == "textual-light"

    driven(flow)


def test_nothing_starts_without_a_question_where_work_would_be_lost(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            app.pane.busy = lambda: "A replay runs. End it?"  # type: ignore[method-assign]
            await press(pilot, "q")
            assert isinstance(app.screen, Confirm)
            await press(pilot, "n")
            assert app.is_running
            await press(pilot, "ctrl+q", "ctrl+q")
            assert len(app.screen_stack) == 2
            await press(pilot, "n")
            assert len(app.screen_stack) == 1
            assert app.is_running
            await press(pilot, "q", "y")
            assert not app.is_running

    driven(flow)


@pytest.mark.thorough
def test_nothing_is_suspended_that_holds_the_file(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suspended: list[bool] = []

    async def flow() -> None:
        async with opened(database) as (app, pilot):
            monkeypatch.setattr(App, "action_suspend_process", lambda app: suspended.append(app.store.waiting > 0))
            gate = threading.Event()
            task = asyncio.create_task(app.store.read(lambda _: gate.wait(20)))
            await asyncio.sleep(0)
            await pilot.press("ctrl+z")
            assert suspended == []
            assert "Not suspended" in text_of(app)
            gate.set()
            await task
            await press(pilot, "ctrl+z")
            assert suspended == [False]
            duckdb.connect(database).close()

    driven(flow)


@pytest.mark.thorough
def test_a_locked_file_says_who_holds_it_and_goes_on_when_it_is_free(database: Path) -> None:
    async def flow() -> None:
        app = KerneldbApp(database, first="kernels", watch=False)
        with holder(database) as other:
            async with app.run_test(size=(120, 30)) as pilot:
                while app.query_one(Status).condition.kind != "locked":
                    await pilot.pause(0.05)
                assert f"in use by process {other.pid}" in text_of(app)
                await pilot.press("slash", "escape", "1", "2")
                other.terminate()
                other.wait()
                await settled(pilot)
                assert app.query_one(Status).condition.kind == "ready"
                assert len(app.pane.query_one("#kernels-table", Table).rows) > 0

    driven(flow)


def test_a_lock_during_work_leaves_the_rows(database: Path) -> None:
    async def flow() -> None:
        async with opened(database, first="kernels") as (app, pilot):
            with holder(database):
                await pilot.press("g")
                while app.query_one(Status).condition.kind != "locked":
                    await pilot.pause(0.05)
                assert app.pane.state == "ready"
                assert len(app.pane.query_one(Table).rows) > 0
            await settled(pilot)
            assert app.choice.level == "signature"

    driven(flow)


def test_traces_that_are_gone_are_said_and_all_can_be_looked_at_again(database: Path) -> None:
    async def flow() -> None:
        async with opened(database, Choice(traces=("step",)), first="kernels") as (app, pilot):
            kerneldb.open(database).rename("step", "other")
            await press(pilot, "f5")
            for key in "27":
                await press(pilot, key)
                assert app.pane.state == "empty", key
                assert "The trace step is not in this file (any more)." in text_of(app)
                assert "“Clear the Selection”" in text_of(app)
            await press(pilot, "ctrl+p")
            await press(pilot, *"clear", "enter")
            assert app.choice == Choice()
            assert app.pane.state == "ready"
            assert "not in this file" not in text_of(app)

    driven(flow)


def test_chosen_traces_stay_in_the_status_line(trace_database: Path) -> None:
    facts = Facts(("NVIDIA H200",), 13, 23_580, 6_900_000_000, 5_997, 13_800_000, 5_937)
    lines = {
        ("bloom", "decoder"): "● 2 of 13 traces · 5,997 of 23,580 launches (5,937 primary) · 13.8 ms GPU",
        ("bloom",): "● trace bloom · 5,997 of 23,580 launches (5,937 primary) · 13.8 ms GPU",
        ("rocprofv3_gfx1151_llamacpp_decode_stall_counter_collection",): "_collection · 5,997 of 23,580 launches ·",
        (): "● 13 traces · 5,997 of 23,580 launches (5,937 primary) · 13.8 ms GPU (0.2 %)",
    }

    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(80, 24)) as (app, pilot):
            status = app.query_one(Status)
            for traces, shown in lines.items():
                status.choice, status.facts = Choice(traces=traces), facts
                await settled(pilot)
                (line,) = [line for line in text_of(app).splitlines() if "23,580" in line]
                assert shown in line
                assert len(line) <= 80

    driven(flow)


@pytest.mark.thorough
def test_a_condition_of_several_lines_is_shown_whole_and_stays_one(trace_database: Path) -> None:
    comment = f"{GEMM} -- only these"
    asked = "duration_ns > 0"

    async def flow() -> None:
        async with opened(trace_database, Choice(comment), first="kernels") as (app, pilot):
            matched = app.query_one(Status).facts.matched
            line = app.query_one("#where-input", Input)
            app.narrow(asked)
            await settled(pilot)
            assert app.choice.where == f"({comment}\n) AND {asked}"
            assert line.value == f"({comment}↵) AND {asked}"
            assert f"only these↵) AND {asked}" in text_of(app)
            await press(pilot, "slash")
            assert not line.value.count("\n")
            await press(pilot, "space", "enter")
            assert app.choice.where.strip() == f"({comment}\n) AND {asked}"
            assert app.query_one(Status).facts.matched == matched
            app.narrow("true")
            await settled(pilot)
            assert app.choice.where == f"(({comment}\n) AND {asked}) AND true"
            await press(pilot, "slash", "up", "up")
            assert "\n" not in line.value

    driven(flow)


def test_a_vanished_file_is_said_and_the_rows_stay(database: Path) -> None:
    async def flow() -> None:
        async with opened(database, first="kernels") as (app, pilot):
            rows = len(app.pane.query_one(Table).rows)
            aside = database.rename(database.with_suffix(".aside"))
            await press(pilot, "f5")
            assert app.query_one(Status).condition.kind == "missing"
            assert "is gone" in " ".join(text_of(app).split())
            assert len(app.pane.query_one(Table).rows) == rows
            await press(pilot, "1", "2", "g")
            aside.rename(database)
            await press(pilot, "f5")
            assert app.query_one(Status).condition.kind == "ready"
            assert app.pane.state == "ready"
            assert not app.pane.has_class("-note")

    driven(flow)


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(tmp_path / "none.duckdb") as (app, _):
            assert app.pane.state == "error"
            assert "nosuchdatabase" in unwrapped(app)

    driven(flow)


def test_a_commit_of_another_program_shows_by_itself(database: Path) -> None:
    async def flow() -> None:
        app = KerneldbApp(database)
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            assert "step" in text_of(app)
            await asyncio.to_thread(kerneldb.open(database).rename, "step", "renamed")
            async with asyncio.timeout(60):
                while "renamed" not in text_of(app):
                    await pilot.pause(0.1)

    driven(flow)


@pytest.mark.thorough
def test_resize_storms(trace_database: Path) -> None:
    async def flow() -> None:
        sizes = random.Random(7)
        async with opened(trace_database) as (app, pilot):
            for key in "1238":
                await pilot.press(key)
                for _ in range(6):
                    await pilot.resize_terminal(sizes.randint(1, 200), sizes.randint(1, 60))
                    if sizes.random() < 0.3:
                        await pilot.press("down")
                await pilot.resize_terminal(80, 24)
                await settled(pilot)
                assert app.pane.state == "ready"
                while not text_of(app).splitlines()[0].startswith(" 1 Overview"):  # until it is drawn for 80 columns
                    await pilot.pause()

    driven(flow)
