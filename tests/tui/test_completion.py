"""What the editor for SQL offers at its cursor, and the windows that find a table or a statement by typing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import OptionList

import kerneldb
from kerneldb.api import completion
from kerneldb.api.completion import Offer, Words
from kerneldb.tui.dialogs import Described, Find
from kerneldb.tui.saved_history import SavedHistory
from kerneldb.tui.screens.sql import SqlEditor
from kerneldb.tui.widgets.where_bar import WhereBar
from tests.tui.piloting import driven, opened, press, settled, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp


@pytest.fixture(scope="module")
def words(trace_database: Path) -> Words:
    with kerneldb.open(trace_database) as db, db.warehouse.connection() as con:
        return completion.words(con)


def test_modules_and_lines_are_offered(root: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "tests/fixtures/stacks-memory-h200.json.gz")
    with database.warehouse.connection() as con:
        offered = completion.words(con)
    assert "'record.py(103): step'" in {one.word for one in offered.in_condition("python_line = '").found}
    modules = [one.word for one in offered.in_condition("module = 'Lin").found]
    assert modules
    assert all(word.startswith("'Lin") for word in modules)


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        ("SELECT dur", " FROM kernels", "duration_ns"),
        ("SELECT id", " FROM idle('selection')", "idle_ns"),
        ("SELECT id", " FROM kernels", "idle('selection')"),
        ("SELECT i.ca", " FROM kernels AS k JOIN idle('kernels') AS i USING (trace)", "cause"),
        ("SELECT (SELECT 1 FROM ops) FROM kernels, api_", "", "api_calls"),
        ("SELECT * FROM ker", "", "kernels"),
        ("WITH mine AS (SELECT 1) FROM mi", "", "mine"),
        ("FROM kernels k WHERE k.categ", "", "category"),
        ("FROM kernels WHERE category = ", "", "'ATTENTION'"),
        ("FROM kernels WHERE category = 'ge", "", "'GEMM'"),
        ("FROM kernels WHERE category IN ('GEMM', 'red", ")", "'REDUCTION'"),
        ("FROM kernels WHERE trace ILIKE 's", "", "'step'"),
        ("FROM kernels WHERE api_call = 'cudaL", "", "'cudaLaunchKernel'"),
        ("sel", "", "select"),
        ("-- it's here\nSEL", "", "SELECT"),
        ("SELECT approx_q", "", "approx_quantile("),
        ("SELECT sum(durat", ") FROM selection", "duration_ns"),
        ("FROM kernels AS k ORDER BY dur", "", "duration_ns"),
    ],
)
def test_the_place_says_what_is_offered_first(words: Words, before: str, after: str, first: str) -> None:
    assert words.at(before, after).found[0].word == first


@pytest.mark.parametrize("before", ["SELECT nosuchword", "FROM kernels WHERE category = 'step", "SELECT x.dur", ""])
def test_nothing_begins_with_what_is_not_there(words: Words, before: str) -> None:
    assert words.at(before).rest == ""


def test_offers_say_what_they_are_and_come_once(words: Words) -> None:
    found = words.at("SELECT ", " FROM kernels").found
    assert len({one.word for one in found}) == len(found)
    (duration,) = (one for one in words.at("SELECT dura", " FROM kernels").found if one.word == "duration_ns")
    assert (duration.kind, duration.part_of) == ("column", "kernels")
    assert duration.meaning.startswith("BIGINT  ")
    assert {one.kind for one in words.all} == {"column", "value", "table", "view", "macro", "keyword", "function"}


class Counted(list[Offer]):
    """A list that knows how often it was gone through."""

    walks = 0

    def __iter__(self) -> Iterator[Offer]:
        self.walks += 1
        return super().__iter__()


def test_a_key_does_not_look_at_all_there_is(words: Words) -> None:
    offers = Counted(words.all)
    counted = Words(offers)
    text, walks = "category = 'ge", []
    for end in range(1, len(text) + 1):
        assert counted.in_condition(text[:end]).found == words.in_condition(text[:end]).found
        walks.append(offers.walks)
    assert walks == [1] * len(text)


def test_a_comparison_is_looked_for_at_begins_of_words_only() -> None:
    """Else a word is gone through again from each of its letters."""
    text = "category = "
    assert [at for at in range(len(text)) if completion.COMPARED.match(text, at)] == [0]


def test_of_many_names_those_with_most_time_are_offered(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": f"kernel_{i:04}", "pid": 0, "tid": 7, "ts": 10 * i, "dur": 1 + (i == 4999)}
        for i in range(5000)
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    with kerneldb.open(tmp_path / "k.duckdb") as db:
        db.ingest(tmp_path / "t.json")
        with db.warehouse.connection() as con:
            found = completion.words(con)
    names = [one.word for one in found.values["short_name"]]
    assert names == [f"'kernel_{i:04}'" for i in [*range(399), 4999]]
    assert sum(one.kind == "value" for one in found.all) < 450


def test_the_bar_and_the_editor_share_what_was_read_once(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Words] = []
    read = completion.words
    monkeypatch.setattr(completion, "words", lambda con: reads.append(read(con)) or reads[-1])

    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            edit, bar = app.pane.query_one(SqlEditor), app.query_one(WhereBar)
            await settled(pilot)
            assert edit.words is bar.suggester.words is reads[0]
            app.action_reload()
            await settled(pilot)
            assert edit.words is reads[-1]
            assert len(reads) == 2, "a file that changed is read again"

    driven(flow)


async def emptied(app: KerneldbApp) -> SqlEditor:
    edit = app.pane.query_one(SqlEditor)
    edit.load_text("")
    return edit


async def typed(pilot: Pilot[Any], text: str) -> None:
    await press(pilot, *("space" if one == " " else "full_stop" if one == "." else one for one in text))


def test_the_list_is_walked_taken_and_left_by_keys(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            edit = await emptied(app)
            await typed(pilot, "d")
            assert not edit.list.is_open
            await typed(pilot, "ur")
            assert edit.list.is_open
            assert "BIGINT" in text_of(app)
            await press(pilot, "down", "up", "down", "enter")
            assert (edit.text, edit.list.is_open) == ("launch_duration_ns", False)
            await emptied(app)
            await typed(pilot, "FROM idle('selection') AS i WHERE i.c")
            assert {one.word for one in edit.list.offers.found} == {"cause"}
            await emptied(app)
            await typed(pilot, "SELECT count(*) FROM ker")
            await press(pilot, "tab")
            assert edit.text == "SELECT count(*) FROM kernels"
            assert edit.has_focus
            await typed(pilot, " k WHERE k.catego")
            await press(pilot, "escape")
            assert (edit.list.is_open, edit.has_focus) == (False, True)
            await press(pilot, "right")
            await typed(pilot, " = 'ge")
            await press(pilot, "tab", "ctrl+j")
            assert edit.text == "SELECT count(*) FROM kernels k WHERE k.category = 'GEMM'"
            assert "1 row" in text_of(app)

    driven(flow)


def test_enter_and_arrows_are_for_the_text_until_somebody_goes_to_the_list(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            edit = await emptied(app)
            await typed(pilot, "FROM ker")
            assert edit.list.is_open
            await press(pilot, "enter")
            assert (edit.text, edit.list.is_open) == ("FROM ker\n", False)
            await press(pilot, "up")
            assert edit.cursor_location[0] == 0

    driven(flow)


@pytest.mark.parametrize("key", ["ctrl+@", "ctrl+space"])
def test_a_key_asks_for_all_that_can_stand_at_the_cursor(trace_database: Path, key: str) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            edit = await emptied(app)
            await typed(pilot, "SELECT ")
            assert not edit.list.is_open
            await press(pilot, key)
            assert edit.list.is_open
            await press(pilot, "escape", *"xdurat", "left", *["left"] * 4, "backspace")
            edit.load_text("SELECT  FROM idle_gaps('selection')")
            edit.move_cursor((0, 7))
            await press(pilot, key)
            assert "gap_ns" in {one.word for one in edit.list.offers.found}

    driven(flow)


def test_a_table_is_found_by_typing_read_and_put_into_the_statement(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(120, 40)) as (app, pilot):
            edit = await emptied(app)
            await typed(pilot, "FROM ")
            await press(pilot, "f2", *"nosuchtable", "enter")
            assert isinstance(app.screen, Find)
            await press(pilot, *["backspace"] * 11, *"idle gap", "down", "up")
            lines = app.screen.query_one(OptionList)
            assert 0 < lines.option_count < 10
            await press(pilot, "enter")
            assert isinstance(app.screen, Described)
            assert "gap_ns" in text_of(app)
            await press(pilot, "i")
            assert edit.text == "FROM idle_gaps"
            assert edit.has_focus

    driven(flow)


def test_statements_of_earlier_sessions_are_found_by_typing(trace_database: Path, tmp_path: Path) -> None:
    place = tmp_path / "state" / "history.json"
    saved = SavedHistory(place)
    for number in range(40):
        saved.add("sql", f"SELECT {number} AS n")

    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(120, 40)) as (app, pilot):
            app.saved = SavedHistory(place)
            app.pane.reload()
            await press(pilot, "f3", *"17", "enter")
            assert app.pane.query_one(SqlEditor).text == "SELECT 17 AS n"
            await press(pilot, "ctrl+j")

    driven(flow)
    assert json.loads(place.read_text())["sql"][:2] == ["SELECT 17 AS n", "SELECT 39 AS n"]
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700
