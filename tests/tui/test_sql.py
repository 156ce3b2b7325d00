"""The screen SQL: statements, messages, history, cancelling, and rows that become a condition."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
from textual.widgets import Input, Static

import kerneldb
from kerneldb.api import browsing
from kerneldb.output.values import python_values
from kerneldb.tui.dialogs import AskPath, CopyMenu, Page
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.sql import FIRST, LONGEST, OLDER, SqlEditor
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Traces

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp

GEMM = "category = 'GEMM'"
TOP = "SELECT op, count(*) AS n FROM selection GROUP BY op ORDER BY n DESC, op"
SLOW = "SELECT sum(a.range * b.range) FROM range(100000000) AS a, range(100000) AS b"


async def run(app: KerneldbApp, pilot: Pilot[Any], text: str) -> str:
    app.pane.query_one(SqlEditor).load_text(text)
    await press(pilot, "ctrl+j")
    return str(app.pane.query_one("#sql-status", Static).content)


def test_the_first_statement_agrees_with_top(tmp_path: Path) -> None:
    warehouse, make_trace = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path / "spools")
    facts: dict[str, Any] = {"run": "job", "source": "nsys"}
    warehouse.commit(make_trace("one", **facts))
    warehouse.commit(make_trace("again", **facts))
    expected = {row["category"]: row["total_ns"] for row in kerneldb.open(warehouse.path).top("category")}

    async def flow() -> None:
        async with opened(warehouse.path, first="sql", size=(100, 30)) as (app, pilot):
            await press(pilot, "ctrl+j")
            rows = app.pane.query_one(Table).rows
            found = [rows.row(place) or {} for place in range(len(rows))]
            assert {row["category"]: row["total_ns"] for row in found} == expected

    driven(flow)


def test_what_is_typed_replaces_the_example(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(80, 24)) as (app, pilot):
            edit = app.pane.query_one(SqlEditor)
            assert edit.selected_text == FIRST
            assert "typing replaces it" in text_of(app)
            await press(pilot, *"FROM", "space", *"ops")
            assert edit.text == "FROM ops"
            edit.load_text(FIRST)
            edit.select_all()
            await press(pilot, "right", "x")  # to look around keeps it
            assert edit.text == f"{FIRST}x"

    driven(flow)


def test_the_copy_key_copies_in_the_editor_too(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            await press(pilot, "f6")
            assert isinstance(app.screen, CopyMenu)
            await press(pilot, "s")
            assert app.clipboard == FIRST

    driven(flow)


def test_it_answers_like_query_and_copies_the_command(trace_database: Path, tmp_path: Path) -> None:
    expected = kerneldb.open(trace_database).sql(TOP, where=GEMM).rows()

    async def flow() -> None:
        async with opened(trace_database, Choice(GEMM, ("step",)), first="sql", size=(100, 30)) as (app, pilot):
            status = await run(app, pilot, f"{TOP};")
            table = app.pane.query_one(Table)
            assert status == f"{len(expected)} row{'s' if len(expected) > 1 else ''}"
            assert [table.rows.row(place) for place in range(len(table.rows))] == expected
            await press(pilot, "ctrl+y")
            assert shlex.split(app.clipboard)[3:] == ["query", TOP, "--where", f"trace IN ('step') AND {GEMM}"]
            await press(pilot, "escape", "e")
            app.screen.query_one(Input).value = str(tmp_path / "x.parquet")
            await press(pilot, "enter")
            assert pq.read_table(tmp_path / "x.parquet").to_pylist() == expected
            await press(pilot, "enter")
            assert isinstance(app.screen, Page)
            await press(pilot, "escape", "u")
            assert app.choice.where == f"{GEMM} AND op = '{expected[0]['op']}'"
            assert app.pane.id == "pane-kernels"
            await press(pilot, "8")
            assert len(app.pane.query_one("#sql-table", Table).rows) == 1

    driven(flow)


def test_errors_show_the_place_and_the_last_rows_stay(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            await run(app, pilot, TOP)
            rows = len(app.pane.query_one(Table).rows)
            for text, message in (
                ("SELECT opp FROM kernels", 'Referenced column "opp"'),
                ("SELEC 1", "syntax error"),
                ("SELECT 1; SELECT 2", "one statement at a time"),
                ("DELETE FROM launches", "read-only"),
                ("FROM read_csv('/etc/passwd')", "disabled"),
                ("SELECT 'x'::INTEGER", "Could not convert"),
            ):
                status = await run(app, pilot, text)
                assert message in status
                assert len(app.pane.query_one(Table).rows) == rows
            assert "^" in await run(app, pilot, "SELECT opp FROM kernels")
            assert await run(app, pilot, "DESCRIBE kernels") != ""
            assert "category" in text_of(app) or len(app.pane.query_one(Table).rows) > 50

    driven(flow)


def test_a_statement_is_cancelled(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            app.pane.query_one(SqlEditor).load_text(SLOW)
            await pilot.press("ctrl+j")
            await asyncio.sleep(0.3)
            await pilot.press("ctrl+x")
            await settled(pilot)
            assert "cancelled" in text_of(app)
            assert "1 row" in await run(app, pilot, "SELECT 1 AS one")

    driven(flow)


def test_history_completion_and_keys_of_the_editor(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            edit = app.pane.query_one(SqlEditor)
            await run(app, pilot, "SELECT 1 AS a")
            await run(app, pilot, "SELECT 2 AS b")
            edit.load_text("draft")
            for key, text in (
                ("ctrl+up", "SELECT 2 AS b"),
                ("ctrl+up", "SELECT 1 AS a"),
                ("ctrl+up", "SELECT 1 AS a"),
                ("ctrl+down", "SELECT 2 AS b"),
                ("ctrl+down", "draft"),
            ):
                await press(pilot, key)
                assert edit.text == text
            edit.load_text("")
            await press(pilot, *"SELECT durat", "right")
            assert edit.text == "SELECT duration_ns"
            await press(pilot, "escape", "2")
            assert app.pane.id == "pane-kernels"

    driven(flow)


def test_the_catalogue_tells_of_columns_and_statements_come_back(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(120, 40)) as (app, pilot):
            await run(app, pilot, "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'")
            await run(app, pilot, "SELECT 3 AS c")
            await press(pilot, "f3", "down", "enter")
            assert app.pane.query_one(SqlEditor).text.startswith("SELECT 1 AS a")
            await press(pilot, "ctrl+j")
            (rows,) = (copy.text for copy in app.pane.copies() if copy.key == "t")
            assert rows.split("\n") == ["a\tb", "1\tx", "2\ty"]
            words = {one.word for one in app.pane.query_one(SqlEditor).words.all}
            assert {"total_allocated_bytes", "approx_quantile(", "wall_time_budget('selection')"} <= words
            await press(pilot, "f2")
            assert "api_calls" in text_of(app)
            await press(pilot, "enter")
            about = kerneldb.open(trace_database).schema("all_launches").rows()
            assert isinstance(app.screen, Page)
            assert "Every GPU activity" in app.screen._text
            assert len(about) > 50
            assert all(row["column"] in app.screen._text for row in about)

    driven(flow)


def test_long_answers_are_cut_and_say_so(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            status = await run(app, pilot, "SELECT range AS n, range::VARCHAR || 'x' AS name FROM range(100001)")
            assert status == "the first 100,000 rows; there are more, e exports all"
            await press(pilot, "escape", "end")
            assert (app.pane.query_one(Table).row or {})["n"] == 99_999
            await press(pilot, "s", "s", "s")
            assert app.pane.query_one(Table).sort is not None

    driven(flow)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "TIMESTAMP '290000-01-01 10:11:12.5'",
            "'-infinity'::DATE",
            "'infinity'::TIMESTAMP",
            "'infinity'::TIMESTAMPTZ",
        ),
        *("DATE '9999-12-31' + 40000000", "DATE '0044-03-15 (BC)'", "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'"),
    ],
)
def test_times_that_python_cannot_hold_are_texts(value: str) -> None:
    with duckdb.connect() as con:
        column = con.sql(f"SELECT {value} AS a").to_arrow_table()["a"]
        assert python_values(column) == [con.sql(f"SELECT ({value})::VARCHAR").fetchall()[0][0]]


def test_rows_with_such_values_are_shown_and_sorted(trace_database: Path) -> None:
    statement = """SELECT * FROM (VALUES ('infinity'::DATE, ['infinity'::DATE], {'x': ['-infinity'::DATE]}, 1),
        ('-infinity', NULL, NULL, 2)) AS t(day, days, part, n), (SELECT INTERVAL 3 MONTH AS n, 'b'::ENUM('b') AS m)"""

    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            assert await run(app, pilot, statement) == "2 rows"
            table = app.pane.query_one(Table)
            first = table.rows.row(0) or {}
            assert (first["day"], first["days"], first["part"]) == ("infinity", ["infinity"], {"x": ["-infinity"]})
            assert len(first) == 6
            await press(pilot, "escape")
            seen = []
            for _ in range(6):
                await press(pilot, "s")
                assert table.sort is not None
                seen.append(table.sort[0])
            assert len(set(seen)) == 3
            assert not {"days", "part"} & set(seen)
            await press(pilot, "enter")
            assert isinstance(app.screen, Page)

    driven(flow)


def test_a_statement_that_failed_has_nothing_to_export(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            await run(app, pilot, "SELECT b")
            await press(pilot, "f4")
            assert not isinstance(app.screen, AskPath)
            assert "failed" in [one.message for one in app._notifications][-1]
            await run(app, pilot, "SELECT 1 AS a")
            await press(pilot, "f4")
            assert isinstance(app.screen, AskPath)
            line = app.screen.query_one(Input)
            assert line.selected_text == line.value
            await press(pilot, "x")
            assert line.value == "x"

    driven(flow)


def test_export_and_copies_are_of_the_statement_whose_rows_are_shown(trace_database: Path, tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            await run(app, pilot, "SELECT 1 AS a")
            pane = app.pane
            assert await pane.export(tmp_path / "same.parquet") == 1
            assert not app._notifications
            assert OLDER in await run(app, pilot, "SELECT b")
            assert shlex.split(pane.command() or "")[-1] == "SELECT 1 AS a"
            assert [(entry.key, entry.text) for entry in pane.copies()][:2] == [
                ("s", "SELECT 1 AS a"),
                ("d", "SELECT b"),
            ]
            assert await pane.export(tmp_path / "x.parquet") == 1
            assert pq.read_table(tmp_path / "x.parquet").column_names == ["a"]
            assert "SELECT 1 AS a" in [one.message for one in app._notifications][-1]

    driven(flow)


def test_a_text_that_a_column_never_has_gets_near_ones(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            said = await run(app, pilot, "SELECT count(*) FROM selection WHERE category = 'gemm'")
            assert said == "1 row\ncategory has no value 'gemm'; near: 'GEMM'"
            assert "near columns: category" in await run(app, pilot, "SELECT catgory FROM kernels")

    driven(flow)


WIDE = "SELECT repeat('x', 2000000) AS a, '[red]' AS \"b\x1b\nc\", range AS i FROM range(3)"


def test_long_cells_are_cut_where_they_are_shown_and_not_copied(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            await run(app, pilot, WIDE)
            await press(pilot, "escape", "enter")
            shown = str(app.screen.query_one(Static).content)
            assert len(shown) < 2 * LONGEST
            assert f"xx… (the first {LONGEST:,} of 2,000,000 characters)\n" in shown
            assert "\nb\\x1b\\nc " in shown
            await press(pilot, "escape", "y", "y")
            assert (app.clipboard, "Not copied" in text_of(app)) == ("", True)

    driven(flow)


def test_as_many_rows_as_fit_are_taken_and_copied(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "MOST_BYTES", 1_000_000)

    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(100, 30)) as (app, pilot):
            status = await run(app, pilot, "SELECT repeat('x', 10000) AS a FROM range(3000)")
            assert status == "the first 1,024 rows; there are more, e exports all"
            await press(pilot, "escape", "y", "t")
            lines = app.clipboard.split("\n")
            assert lines == ["a", *["x" * 10000] * 99]

    driven(flow)
