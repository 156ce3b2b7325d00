"""Opening files, reading traces from within, what outlasts a session, cells to copy, times to go to."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList, Static

import kerneldb
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.commands import time_of
from kerneldb.tui.dialogs import AskOpen, CopyMenu, Ingesting, is_database
from kerneldb.tui.saved_history import MOST, SavedHistory, default_place
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.tui.widgets.header import Tabs
from kerneldb.tui.widgets.table import Table
from kerneldb.tui.widgets.where_bar import WhereBar
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of

pytestmark = pytest.mark.thorough

FIXTURE = "train-step-h200.json.gz"


def test_a_trace_is_read_from_an_empty_file_and_another_file_opened(
    root: Path, trace_database: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new.duckdb"
    Warehouse.create_or_open(path)
    trace = shutil.copy(root / "tests" / "fixtures" / FIXTURE, tmp_path / FIXTURE)

    async def flow() -> None:
        saved = SavedHistory()
        saved.add("files", str(trace_database))
        app = KerneldbApp(path, watch=False, saved=saved)
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            assert app.pane.state == "empty"
            assert "o reads a trace" in text_of(app)
            await press(pilot, "o")
            assert isinstance(app.screen, AskOpen)
            app.screen.query_one(Input).value = str(tmp_path / "none")
            await press(pilot, "enter")
            assert "does not exist" in str(app.screen.query_one(".window--problem", Static).content)
            app.screen.query_one(Input).value = str(trace)
            await pilot.press("enter")
            await settled(pilot, 60)
            window = app.screen
            assert isinstance(window, Ingesting)
            assert (window.code, "ingested, " in text_of(app)) == (0, True), text_of(app)
            await press(pilot, "enter")
            assert app.pane.state == "ready"
            assert "train-step-h200" in text_of(app)
            app.choose(where="category = 'GEMM'")
            await press(pilot, "o", "down")
            assert app.screen.query_one(OptionList).option_count == 2
            await press(pilot, "down", "enter")
            assert app.store.path == trace_database
            assert app.choice.everything
            assert app.query_one(WhereBar).line.value == ""
            assert "step" in text_of(app)
            assert saved.texts("files") == [str(trace_database), str(path)]

    driven(flow)
    assert len(kerneldb.open(path).sql("FROM traces")) == 1


def test_reading_a_trace_fails_and_is_cancelled(tmp_path: Path) -> None:
    path, text = tmp_path / "new.duckdb", tmp_path / "notes.txt"
    Warehouse.create_or_open(path)
    text.write_text("no trace")

    async def flow() -> None:
        async with opened(path) as (app, pilot):
            app.push_screen(Ingesting(str(path), text))
            await settled(pilot, 60)
            assert "not a trace" in text_of(app)
            assert "failed" in text_of(app)
            await press(pilot, "escape")
            waits = Ingesting(str(path), text)
            waits.command = ("sleep", "60")
            app.push_screen(waits)
            await pilot.pause(0.2)
            await pilot.press("enter", "escape")
            await settled(pilot)
            assert waits.code not in {None, 0}
            await press(pilot, "escape")
            assert not isinstance(app.screen, Ingesting)

    driven(flow)


def test_databases_are_told_from_traces(trace_database: Path, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0")
    assert is_database(trace_database)
    assert not is_database(tmp_path / "x.db")
    assert not is_database(tmp_path)


def test_conditions_and_statements_outlast_the_session(trace_database: Path, tmp_path: Path) -> None:
    place = tmp_path / "state" / "kerneldb" / "history.json"

    async def first() -> None:
        app = KerneldbApp(trace_database, watch=False, saved=SavedHistory(place))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            app.choose(where="category = 'GEMM'")
            await press(pilot, "8", "ctrl+j")

    async def second() -> None:
        app = KerneldbApp(trace_database, watch=False, saved=SavedHistory(place))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            await press(pilot, "slash", "up")
            assert app.query_one(WhereBar).line.value == "category = 'GEMM'"

    asyncio.run(first())
    found = json.loads(place.read_text())
    assert found["where"] == ["category = 'GEMM'"]
    assert found["sql"][0].startswith("SELECT category")
    assert found["files"] == [str(trace_database)]
    assert place.stat().st_mode & 0o077 == 0
    asyncio.run(second())


def test_memory_is_kept_short_and_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "history.json"
    one, other = SavedHistory(place), SavedHistory(place)
    for number in range(MOST + 5):
        one.add("where", f"n = {number}")
    other.add("where", "n = 3")
    assert other.texts("where")[:2] == ["n = 3", f"n = {MOST + 4}"]
    assert len(SavedHistory(place).texts("where")) == MOST
    for broken in ("{", "[1]", '{"where": 3, "sql": [1, "x"]}'):
        place.write_text(broken)
        assert SavedHistory(place).texts("where") == []
    assert SavedHistory(place).texts("sql") == ["x"]
    (tmp_path / "file").write_text("")
    SavedHistory(tmp_path / "file" / "history.json").add("where", "x = 1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_place() == tmp_path / "kerneldb" / "history.json"


def test_a_cell_is_copied_as_the_database_has_it(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            row = app.pane.query_one(Table).row
            assert row is not None
            await press(pilot, "y", "c")
            assert isinstance(app.screen, CopyMenu)
            await press(pilot, "1")
            assert app.clipboard == row["kernel"]
            titles = [placed.column.key for placed in app.pane.query_one(Table).placed if row[placed.column.key]]
            await press(pilot, "y", "c", str(titles.index("total_ns") + 1))
            assert app.clipboard == str(row["total_ns"])
            await press(pilot, "y", "c", "escape")
            assert not isinstance(app.screen, CopyMenu)

    driven(flow)


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("12.5 ms", 12_500_000),
        ("40us", 40_000),
        (" 3µs ", 3_000),
        ("1s", 10**9),
        ("7 ns", 7),
        ("12", None),
        ("ms", None),
    ],
)
def test_times_are_told_from_words(text: str, time_ns: int | None) -> None:
    assert time_of(text) == time_ns


def test_a_time_is_gone_to_on_the_timeline(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for text, time_ns in (("1.5 ms", 1_500_000), ("900 us", 900_000)):
                await press(pilot, "colon")
                app.screen.query_one(Input).value = text
                await press(pilot, "enter")
                pane = app.pane
                assert (app.query_one(Tabs).active, isinstance(pane, TimelinePane)) == ("timeline", True)
                assert isinstance(pane, TimelinePane)
                assert pane.cursor_ns == time_ns
                assert pane.first_ns <= time_ns < pane.last_ns
                assert pane.last_ns - pane.first_ns < pane.axis.end_ns
            app.time_ns = 10**15
            app.show("timeline")
            await settled(pilot)
            assert pane.cursor_ns == pane.axis.end_ns - 1

    driven(flow)


def test_the_place_of_the_database_is_no_argument_of_the_process(tmp_path: Path) -> None:
    place = "ducklake:postgres:postgresql://u:secret@h/db"
    window = Ingesting(place, tmp_path / "trace.json")
    assert not [part for part in window.command if "secret" in part]
    assert window.environment["KERNELDB_DB"] == place


def test_characters_of_several_bytes_may_come_in_pieces(tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(tmp_path / "none.duckdb") as (app, pilot):
            window = Ingesting(str(tmp_path / "none.duckdb"), tmp_path)
            write = "import sys,time; w = sys.stderr.buffer; "
            pieces = "; ".join(f"w.write({part!r}); w.flush(); time.sleep(0.1)" for part in (b"3 \xc2", b"\xb5s"))
            window.command = (sys.executable, "-c", write + pieces)
            app.push_screen(window)
            await settled(pilot, 60)
            assert "3 µs" in text_of(app)

    driven(flow)


def test_memory_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    replace = Path.replace

    def replaced(path: Path, target: Path) -> Path:
        modes.append(path.stat().st_mode & 0o777)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(Path, "chmod", lambda *_: pytest.fail("the file was open to others before"))
    SavedHistory(tmp_path / "history.json").add("where", "x = 1")
    assert modes == [0o600]
