"""The screen Overview: sums, largest kernels, categories, streams, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.tui.model import Choice
from kerneldb.tui.widgets.cards import Cards
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of, unwrapped
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


def table_of(app: KerneldbApp, name: str) -> Table:
    return app.pane.query_one(f"#overview-{name}", Table)


@pytest.mark.parametrize("where", ["", "category = 'GEMM'"])
def test_it_shows_what_the_commands_print(trace_database: Path, where: str) -> None:
    database = kerneldb.open(trace_database)
    top, categories = (database.top(by, where=where or None).rows() for by in ("kernel", "category"))
    (busy,) = database.sql("FROM gpu_time('selection')", where=where or "true").rows()

    async def flow() -> None:
        async with opened(trace_database, Choice(where), size=(100, 40)) as (app, _):
            shown, expected = table_of(app, "top"), top[:10]
            for index, wanted in enumerate(expected):
                row = shown.rows.row(index) or {}
                assert (row["kernel"], row["n"], row["total_ns"]) == (wanted["kernel"], wanted["n"], wanted["total_ns"])
                assert row["cumulative"] == pytest.approx(sum(one["share_pct"] for one in expected[: index + 1]))
            groups = table_of(app, "categories")
            found = [(groups.rows.row(index) or {})["total_ns"] for index in range(len(groups.rows))]
            assert found == [row["total_ns"] for row in categories]
            cards = app.pane.query_one(Cards).values
            assert cards["launches"] == f"{sum(row['n'] for row in top):,}"
            assert cards["GPU busy"] == f"{busy['busy_pct']:.1f} %"
            assert cards["replayed"] == "0 %"

    driven(flow)


def test_busy_time_of_streams_is_drawn_over_time(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, size=(160, 48)) as (app, _):
            lanes = table_of(app, "streams")
            row = lanes.row or {}
            assert sum(row["totals"]) == row["total_ns"]
            assert 0 < row["busy"] <= 100
            assert set(row["sparkline"]) <= set(" ▁▂▃▄▅▆▇█")

    driven(flow)


def test_enter_looks_at_what_the_cursor_is_on(trace_database: Path) -> None:
    conditions = {"top": "", "categories": "category = ", "streams": "device = 0 AND stream = "}

    async def flow() -> None:
        async with opened(trace_database, size=(100, 40)) as (app, pilot):
            for name, condition in conditions.items():
                table_of(app, name).focus()
                row = table_of(app, name).row or {}
                await press(pilot, "enter")
                assert app.pane.id == "pane-kernels"
                assert app.choice.where.startswith(condition)
                table = app.pane.query_one("#kernels-table", Table)
                found = [(table.rows.row(index) or {})["total_ns"] for index in range(len(table.rows))]
                assert sum(found) == row["total_ns"]
                app.choose(where="", traces=(), level="kernel")
                await settled(pilot)
                await press(pilot, "1")

    driven(flow)


def test_traces_are_looked_at_marked_and_compared(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, size=(100, 40)) as (app, pilot):
            table_of(app, "traces").focus()
            for traces in (("step",), ()):
                await press(pilot, "enter")
                assert app.choice.traces == traces
            for key, marked in (("space", ("step",)), ("escape", ())):
                await press(pilot, key)
                assert app.marked == marked
            await press(pilot, "space", "d")
            assert app.pane.id == "pane-diff"

    driven(flow)


def test_tab_walks_through_the_tables_and_g_through_the_levels(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, size=(80, 24)) as (app, pilot):
            seen = []
            for _ in range(5):
                assert app.screen.focused is not None
                seen.append(app.screen.focused.id)
                await press(pilot, "tab")
            assert seen[:4] == ["overview-top", "overview-traces", "overview-categories", "overview-streams"]
            assert seen[4] == "where-input"
            await press(pilot, "escape", "g")
            assert app.choice.level == "signature"
            assert "signatures" in text_of(app)

    driven(flow)


def test_a_file_without_traces_says_how_to_get_some(database: Path) -> None:
    kerneldb.open(database).remove("step")

    async def flow() -> None:
        async with opened(database) as (app, pilot):
            for key in ("1", "2", "3"):
                await press(pilot, key)
                assert app.pane.state == "empty"
                assert f"kerneldb--db{database}ingest" in unwrapped(app)

    driven(flow)


def test_nothing_that_matches_is_a_sentence(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice("duration_ns < 0")) as (app, pilot):
            assert "No launch matches" in text_of(app)
            await press(pilot, "2")
            assert app.pane.state == "empty"
            await press(pilot, "3")
            assert app.pane.state == "empty"

    driven(flow)


def test_launches_in_sums_are_told_from_those_that_can_be_listed(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    report = {"origin": "report", "signature_id": "s:gemm:1:", "timing": "timeline", "n": 3000, "total_ns": 300}
    warehouse.commit(make("one", (Launch("gemm", 0, 500), Launch("gemm", 600, 500))))
    warehouse.commit(make("sums", (), kind="summary", source="nsys", reports=(report,)))

    async def flow() -> None:
        async with opened(warehouse.path, size=(110, 40)) as (app, pilot):
            for choice, card, line in (
                (("sums",), "3,000 (all in sums only)", "0 of 2 launches + 3,000 in sums only"),
                (("one",), "2", "· 2 launches ·"),
                ((), "3,002 (3,000 in sums only)", "· 2 launches + 3,000 in sums only"),
            ):
                app.choose(traces=choice)
                await settled(pilot)
                assert app.pane.query_one(Cards).values["launches"] == card
                assert line in text_of(app)
            rows = table_of(app, "traces").rows
            shown = {row["trace"]: (row["launches"], row["total_ns"]) for row in map(rows.row, range(2)) if row}
            assert shown == {"one": (2, 1000), "sums": (3000, 300)}

    driven(flow)


def test_the_page_of_a_signature_has_its_sums(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    report = {
        "origin": "report",
        "signature_id": "s:gemm:1:",
        "timing": "timeline",
        "n": 3,
        "total_ns": 300,
        "min_ns": 90,
    }
    warehouse.commit(make("sums", (), kind="summary", source="nsys", reports=(report,)))
    warehouse.commit(make("one", (Launch("gemm", 0, 500),), reports=(report,)))
    times = kerneldb.open(warehouse.path).show("s:gemm:1:").tables["times"]
    assert [(row["trace"], row["n"], row["total_ns"], row["mean_ns"], row["min_ns"]) for row in times] == [
        ("one", 1, 500, 500, 500),
        ("sums", 3, 300, 100, 90),
    ]
