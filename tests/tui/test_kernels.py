"""The screen Kernels: it shows what `top` prints, from operators down to single launches."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.dialogs import Choose
from kerneldb.tui.model import LEVELS, Choice
from kerneldb.tui.screens.kernels import LevelBar
from kerneldb.tui.widgets.table import PAGE, Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Level

GEMM = "category = 'GEMM'"
FIGURES = ("n", "total_ns", "share_pct", "mean_ns", "min_ns", "max_ns")
KEYS = {"op": "op", "kernel": "name_id", "signature": "signature_id"}


def rows_of(app: KerneldbApp) -> list[dict[str, Any]]:
    table = app.pane.query_one("#kernels-table", Table)
    found = [table.rows.row(index) for index in range(len(table.rows))]
    return [row for row in found if row is not None]


@pytest.mark.thorough
def test_a_level_shows_what_top_prints(trace_database: Path) -> None:
    database = kerneldb.open(trace_database)
    choices = [Choice(), Choice("duration_ns > 3000", ("step",))]

    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(100, 24)) as (app, pilot):
            for choice, level in itertools.product(choices, KEYS):
                app.choose(where=choice.where, traces=choice.traces, level=level)
                await settled(pilot)
                expected = database.top(level, where=choice.where or None, traces=choice.traces).rows()
                shown = rows_of(app)
                assert [row["key"] for row in shown] == [row.get(KEYS[level], row.get(level)) for row in expected]
                for name in FIGURES:
                    assert [row[name] for row in shown] == pytest.approx([row[name] for row in expected])

    driven(flow)


def test_quantiles_and_rates_are_those_of_the_launches(trace_database: Path) -> None:
    expected = kerneldb.open(trace_database).sql(
        "SELECT median(duration_ns) AS p50_ns, "
        "sum(flops) / sum(duration_ns) FILTER (flops IS NOT NULL) / 1e3 AS tflops FROM kernels "
        "WHERE timing = 'timeline' AND op = 'aten::mm'"
    )

    async def flow() -> None:
        async with opened(trace_database, Choice(level="op"), first="kernels") as (app, _):
            (row,) = [row for row in rows_of(app) if row["op"] == "aten::mm"]
            (wanted,) = expected.rows()
            assert row["p50_ns"] == pytest.approx(wanted["p50_ns"])
            assert row["tflops"] == pytest.approx(wanted["tflops"])

    driven(flow)


def test_enter_goes_down_to_the_launch_and_escape_back(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(level="op"), first="kernels", size=(100, 24)) as (app, pilot):
            first = rows_of(app)[0]
            await press(pilot, "enter")
            assert (app.choice.level, app.choice.where) == ("kernel", f"op = '{first['op']}'")
            total = sum(row["total_ns"] for row in rows_of(app))
            assert total == first["total_ns"]
            kernel = rows_of(app)[0]
            await press(pilot, "enter")
            assert app.choice.level == "signature"
            assert sum(row["n"] for row in rows_of(app)) == kernel["n"]
            signature, within = rows_of(app)[0]["signature_id"], app.choice.where
            await press(pilot, "enter")
            assert app.signature == signature
            assert app.pane.id == "pane-kernel"
            await press(pilot, "l")
            narrowed = f"{within} AND signature_id = '{signature}'"
            assert (app.choice.level, app.choice.where) == ("launch", narrowed)
            assert {row["signature_id"] for row in rows_of(app)} == {signature}
            await press(pilot, "escape", "escape", "escape")
            assert app.choice == Choice(level="op")

    driven(flow)


def test_g_walks_through_the_levels(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(100, 24)) as (app, pilot):
            seen = []
            for _ in LEVELS:
                await press(pilot, "g")
                assert app.query_one(LevelBar).level == app.choice.level
                assert f"{len(app.pane.query_one(Table).rows):,} " in text_of(app).splitlines()[3]
                seen.append(app.choice.level)
            assert seen == ["signature", "launch", "op", "kernel"]
            await press(pilot, "G")
            assert app.choice.level == "op"
            await pilot.click(LevelBar, offset=(60, 0))
            await settled(pilot)
            await pilot.click(LevelBar, offset=(3, 0))
            await settled(pilot)
            assert app.choice.level == "op"

    driven(flow)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "order"), [pytest.param(None, "start_ns", marks=pytest.mark.volume), ("kind = 'kernel'", "duration_ns")]
)
def test_launches_come_page_by_page_in_their_order(trace_database: Path, where: str | None, order: str) -> None:
    database = kerneldb.open(trace_database)
    tail = "duration_ns DESC, trace_id, launch_index" if order == "duration_ns" else "trace_id, launch_index"
    expected = database.sql(
        f"SELECT launch_index, {order} FROM selection ORDER BY {tail}", where=where or "true"
    ).rows()
    assert len(expected) > 3 * PAGE

    async def flow() -> None:
        async with opened(trace_database, Choice(where or "", level="launch"), first="kernels", size=(100, 24)) as (
            app,
            pilot,
        ):
            table = app.pane.query_one("#kernels-table", Table)
            if order == "duration_ns":
                await press(pilot, "s", "s")
                assert table.sort == ("duration_ns", True)
            assert len(table.rows) == len(expected)
            page, last = table.scrollable_content_region.height - 2, len(expected) - 1
            for keys, place in (("end", last), ("pageup", last - page), ("home", 0), ("pagedown", page)):
                await press(pilot, keys)
                assert table.cursor == place
                row = table.row
                assert row is not None
                assert row["launch_index"] == expected[place]["launch_index"]
            rows_of(app)
            await settled(pilot)
            assert [row["launch_index"] for row in rows_of(app)] == [row["launch_index"] for row in expected]

    driven(flow)


def test_the_cursor_stays_on_its_row_when_rows_are_sorted_or_asked_again(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(160, 30)) as (app, pilot):
            table = app.pane.query_one("#kernels-table", Table)
            await press(pilot, "down", "down", "down")
            row = table.row
            assert row is not None
            assert row["kernel"][:20] in text_of(app)
            for keys in ("s", "S", "f5"):
                await press(pilot, keys)
                assert (table.row or {})["key"] == row["key"]
            counts = [one["share_pct"] for one in rows_of(app)]
            assert counts == sorted(counts)
            await press(pilot, "g", "g")
            await press(pilot, "end")
            launch = table.row
            assert launch is not None
            await press(pilot, "f5")
            assert table.row == launch

    driven(flow)


def test_marked_rows_become_a_condition(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(100, 24)) as (app, pilot):
            wanted = [row["key"] for row in rows_of(app)[:2]]
            await press(pilot, "space", "space", "enter")
            assert {row["key"] for row in rows_of(app)} == set(wanted)
            assert app.choice.where.startswith("name_id IN (")
            await press(pilot, "space", "escape", "escape")
            assert app.choice.everything

    driven(flow)


def test_columns_are_chosen_per_level(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(120, 24)) as (app, pilot):
            await press(pilot, "h")
            assert isinstance(app.screen, Choose)
            await press(pilot, "down", "space", "enter")
            assert "category" not in text_of(app).splitlines()[4]
            await press(pilot, "g", "G")
            assert "category" not in text_of(app).splitlines()[4]
            await press(pilot, "h", "down", "space", "enter")
            assert "category" in text_of(app).splitlines()[4]

    driven(flow)


def test_columns_fit_the_terminal(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(80, 24)) as (app, pilot):
            for width, shown, hidden in ((80, "category", "p95"), (160, "p95", "no such"), (60, "total", "mean")):
                await pilot.resize_terminal(width, 24)
                await settled(pilot)
                head = text_of(app).splitlines()[4]
                assert shown in head
                assert hidden not in head
                assert app.pane.query_one("#kernels-side").display == (width >= 140)

    driven(flow)


def test_counters_and_sums_alone_say_so(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "sums.duckdb"
    kerneldb.open(path).ingest(root / "tests" / "fixtures" / "nsys" / "r23_cuda_gpu_kern_sum.tsv")

    async def flow() -> None:
        async with opened(path, first="kernels", size=(80, 24)) as (app, pilot):
            assert len(rows_of(app)) > 0
            for keys, state in ((("g", "g"), "empty"), (("G", "G"), "ready")):
                await press(pilot, *keys)
                assert app.pane.state == state
                assert ("Sums only" in text_of(app)) == (state == "empty")

    driven(flow)


@pytest.mark.thorough
def test_without_time_no_share_is_shown(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("zero", (Launch("gemm", 5, 0), Launch("gemm", 9, 0, grid=2))))

    async def flow() -> None:
        async with opened(warehouse.path, Choice(level="signature"), first="kernels") as (app, pilot):
            for where in ("", "duration_ns = 0"):
                app.choose(where=where)
                await settled(pilot)
                assert [row["share_pct"] for row in rows_of(app)] == [None, None]
            await press(pilot, "1", "2")
            assert "nan" not in text_of(app)

    driven(flow)


def test_marked_operators_are_the_recorded_or_the_found_ones(found: Path) -> None:
    async def flow() -> None:
        async with opened(found, Choice(level="op"), first="kernels", size=(100, 24)) as (app, pilot):
            for keys, times in ((("home", "space"), [300]), (("home", "down", "space", "space"), [200, 100])):
                assert [row["total_ns"] for row in rows_of(app)] == [300, 200, 100]
                await press(pilot, *keys, "enter")
                assert [row["total_ns"] for row in rows_of(app)] == times
                app.choose(where="", level="op")
                await settled(pilot)

    driven(flow)


def test_launches_say_how_their_operator_was_found(found: Path) -> None:
    async def flow() -> None:
        async with opened(found, Choice(level="launch"), first="kernels", size=(200, 24)) as (app, pilot):
            shown = [row["operator"] for row in rows_of(app)]
            assert shown == ["aten::mm", "aten::mm (inherited)", "aten::add"]
            await press(pilot, "down")
            assert "operator   aten::mm (inherited)" in text_of(app)
            assert "aten::mm (inherited)" in text_of(app).splitlines()[6].split("│")[0]

    driven(flow)


def test_a_launch_that_two_files_hold_is_listed_once_and_by_either_file(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    launches = tuple(Launch("gemm", start, 9) for start in range(0, 100, 20))
    for name in ("one", "other"):
        warehouse.commit(make(name, launches, base_ns=7))

    async def flow() -> None:
        async with opened(warehouse.path, Choice(level="launch"), first="kernels", size=(100, 24)) as (app, pilot):
            for traces in ((), ("one",), ("other",)):
                app.choose(traces=traces)
                await settled(pilot)
                assert len(app.pane.query_one("#kernels-table", Table).rows) == len(launches)
                assert [row["start_ns"] for row in rows_of(app)] == [launch.start for launch in launches]

    driven(flow)


def test_starts_fit_their_column_where_a_clock_is_damaged(tmp_path: Path) -> None:
    """The late launch stands on a page that is not there at first."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    launches = [Launch("gemm", start, 9) for start in range(PAGE)]
    late = Launch("gemm", 1_763_500_000_000_000_000, 9)
    warehouse.commit(make("clock", (*launches, late), window_start_ns=0, window_end_ns=late.start + 9))

    async def flow() -> None:
        async with opened(warehouse.path, Choice(level="launch"), first="kernels", size=(80, 24)) as (app, pilot):
            table = app.pane.query_one("#kernels-table", Table)
            assert table.placed[0].width == 11
            await press(pilot, "end")
            assert "1,763,500,000,000.000" in text_of(app)
            await press(pilot, "f5")
            assert "1,763,500,000,000.000" in text_of(app)

    driven(flow)


@pytest.mark.thorough
def test_enter_on_sums_opens_the_largest_signature(sums: Path) -> None:
    levels: tuple[Level, ...] = ("op", "kernel", "signature")

    async def flow() -> None:
        async with opened(sums, first="kernels", size=(100, 24)) as (app, pilot):
            for level in levels:
                app.choose(level=level)
                app.signature = None
                app.show("kernels")
                await settled(pilot)
                await press(pilot, "home", "enter")
                assert (app.pane.id, app.signature, app.choice.where) == ("pane-kernel", "s:gemm:2:", "")

    driven(flow)
