"""The screen Overview: sums, largest kernels, categories, streams, traces."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

import kerneldb
from kerneldb.report import why
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import overview
from kerneldb.tui.screens.overview import Cards
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of, unwrapped
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


def table_of(app: KerneldbApp, name: str) -> Table:
    return app.pane.query_one(f"#overview-{name}", Table)


@pytest.mark.parametrize("where", [pytest.param("", marks=pytest.mark.volume), "category = 'GEMM'"])
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


def test_it_opens_with_the_verdict(trace_database: Path) -> None:
    """The same as `kerneldb why` says of the trace with most time."""
    database = kerneldb.open(trace_database)
    (verdict,) = why.verdicts(database, [database.top("trace").rows()[0]["trace"]])

    async def flow() -> None:
        async with opened(trace_database, size=(100, 40)) as (app, pilot):
            shown = app.pane.query_one("#overview-verdict", Static)
            said = str(shown.render())
            assert verdict.headline() in said
            for number, piece in enumerate(verdict.first()[:3], 1):
                assert f"{number}. {piece.sentence}" in said
            app.choose(where="category = 'GEMM'")
            await settled(pilot)
            assert not shown.display

    driven(flow)


@pytest.mark.thorough
def test_a_wide_terminal_has_room_for_names_of_kernels_and_for_busy_time_of_streams(trace_database: Path) -> None:
    longest = max(len(row["kernel"]) for row in kerneldb.open(trace_database).top().rows()[:10])

    async def flow() -> None:
        async with opened(trace_database, size=(140, 40)) as (app, pilot):
            for width in (140, 220):
                await pilot.resize_terminal(width, 40)
                await settled(pilot)
                side = {placed.column.key: placed.width for placed in table_of(app, "streams").placed}
                assert side["sparkline"] >= 32
                names = next(placed.width for placed in table_of(app, "top").placed if placed.column.key == "kernel")
                assert names >= min(longest, width - 62 - 62)
            lanes = table_of(app, "streams")
            row = lanes.row or {}
            assert sum(row["totals"]) == row["total_ns"]
            assert 0 < row["busy"] <= 100
            assert set(row["sparkline"]) <= set(" ▁▂▃▄▅▆▇█")

    driven(flow)


def test_nothing_scrolls_where_fewer_kernels_leave_room(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the sentences of the verdict take lines that nobody knew of when the kernels were listed."""
    said = overview._said
    monkeypatch.setattr(overview, "_said", lambda *a: Content("\n").join([said(*a), Content("more\n" * 12)]))

    async def flow() -> None:
        async with opened(trace_database, size=(200, 50)) as (app, _):
            table = table_of(app, "top")
            assert app.pane.query_one(VerticalScroll).max_scroll_y == 0
            assert overview.TOP <= len(table.rows) < kerneldb.open(trace_database).top(limit=1000).to_arrow().num_rows

    driven(flow)


@pytest.mark.thorough
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
                app.show("overview")
                await settled(pilot)

    driven(flow)


@pytest.mark.thorough
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


@pytest.mark.thorough
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
            assert "signatures" in app.pane.query_one(Cards).values

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


@pytest.mark.thorough
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
                assert app.pane.query_one(Cards).values["signatures"] == "1"
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


@pytest.mark.thorough
def test_status_and_cards_tell_which_launches_count(tmp_path: Path) -> None:
    """Three launches of 10 µs, the same program once more in its run, and two that ran under a counter profiler."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "parts.duckdb"), Traces(tmp_path)
    program = tuple(Launch("gemm", 1000 * start, 10_000) for start in (0, 20, 40))
    for name in ("first", "again"):
        warehouse.commit(make(name, program, stated_run="one", source="nsys", era=name, base_ns=1))
    counted = tuple(Launch("gemm", start, 9000, timing="profiled") for start in (0, 20_000))
    warehouse.commit(make("counters", counted, kind="profiled", source="ncu"))

    async def flow() -> None:
        async with opened(warehouse.path, size=(160, 40)) as (app, pilot):
            for traces, where, status, card in (
                ((), "", "8 launches (3 primary) · 30.0 µs", "3"),
                ((), "duration_ns > 1", "5 of 8 launches (3 primary) · 30.0 µs", "3"),
                (("counters",), "", "2 of 8 launches (none in sums)", "0"),
            ):
                app.choose(traces=traces, where=where)
                await settled(pilot)
                assert status in text_of(app), (traces, text_of(app).splitlines()[1])
                cards = app.pane.query_one(Cards).values
                assert [value for name, value in cards.items() if "launches" in name] == [card]
                assert ("primary launches" in cards) or traces not in {(), ("counters",)}

    driven(flow)


@pytest.mark.thorough
def test_streams_of_several_processes_stand_apart(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("both", (Launch("gemm", 0, 1_000), Launch("gemm", 1, 900))))
    with warehouse.connection(read_only=False) as con:
        con.execute("UPDATE launches SET process = '1' || start_ns")

    async def flow() -> None:
        async with opened(warehouse.path, Choice(), size=(160, 48)) as (app, _):
            rows = app.query_one("#overview-streams", Table).rows
            found = [rows.row(place) or {} for place in range(len(rows))]
            assert [(row["lane"], row["busy"]) for row in found] == [("0:7 pid 10", 100.0), ("0:7 pid 11", 90.0)]

    driven(flow)


@pytest.mark.thorough
def test_launches_without_time_have_no_share(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("zero", (Launch("gemm", 5, 0), Launch("add", 9, 40))))
    warehouse.commit(make("unknown", (Launch("gemm", 5, None, stream=3),)))

    async def flow() -> None:
        async with opened(warehouse.path, Choice("short_name = 'gemm'"), size=(110, 40)) as (app, pilot):
            for traces, total, busy in ((("unknown",), "–", None), ((), "0 ns", 0.0)):
                app.choose(traces=traces)
                await settled(pilot)
                assert app.pane.state == "ready"
                assert app.pane.query_one(Cards).values["GPU time"] == total
                row = table_of(app, "top").row or {}
                assert (row["n"], row["share_pct"], row["share"]) == (1 if traces else 2, None, None)
                assert (table_of(app, "streams").row or {})["busy"] == busy
            app.choose(where="", traces=("unknown",))
            await settled(pilot)
            assert app.pane.query_one(Cards).values["GPU time"] == "–"
            assert "nan" not in text_of(app)
            for key in ("2", "3"):
                await press(pilot, key)
                assert app.pane.state == "ready"

    driven(flow)


@pytest.mark.thorough
def test_enter_on_a_stream_of_a_shared_device_takes_that_process(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("both", (Launch("gemm", 0, 1_000), Launch("gemm", 1, 900), Launch("gemm", 2, 800))))
    warehouse.commit(make("one", (Launch("gemm", 0, 10),)))
    with warehouse.connection(read_only=False) as con:
        con.execute("UPDATE launches SET process = '1' || start_ns WHERE start_ns < 2")
        con.execute("UPDATE launches SET device = NULL, stream = NULL WHERE start_ns = 2")
    conditions = {
        1_000: "device = 0 AND stream = 7 AND process = '10'",
        800: "device IS NULL AND stream IS NULL AND process IS NULL",
        10: "device = 0 AND stream = 7",
    }

    async def flow() -> None:
        async with opened(warehouse.path, size=(160, 48)) as (app, pilot):
            for place, (total, condition) in zip((0, 2, 3), conditions.items(), strict=True):
                table_of(app, "streams").focus()
                await press(pilot, "home", *["down"] * place, "enter")
                assert app.choice.where == condition
                table = app.pane.query_one("#kernels-table", Table)
                assert [(table.rows.row(index) or {})["total_ns"] for index in range(len(table.rows))] == [total]
                app.choose(where="", traces=())
                app.show("overview")
                await settled(pilot)

    driven(flow)


@pytest.mark.thorough
def test_a_process_is_named_where_others_are_not_among_the_lanes(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("many", tuple(Launch("gemm", at, 1_000 - at, stream=at) for at in range(9))))
    with warehouse.connection(read_only=False) as con:
        con.execute("UPDATE launches SET process = CASE WHEN stream = 8 THEN '2' ELSE '1' END")

    async def flow() -> None:
        async with opened(warehouse.path, size=(160, 48)) as (app, _):
            rows = table_of(app, "streams").rows
            assert [(rows.row(place) or {})["lane"] for place in range(2)] == ["0:0 pid 1", "0:1 pid 1"]

    driven(flow)


@pytest.mark.thorough
def test_enter_on_an_operator_takes_the_recorded_or_the_found_ones(found: Path) -> None:
    conditions = ("op = 'aten::mm' AND inferred_by IS NULL", "op = 'aten::mm' AND inferred_by = 'inherited'")

    async def flow() -> None:
        async with opened(found, Choice(level="op"), size=(100, 40)) as (app, pilot):
            for place, condition in enumerate(conditions):
                table_of(app, "top").focus()
                await press(pilot, "home", *["down"] * place)
                row = table_of(app, "top").row or {}
                await press(pilot, "enter")
                assert app.choice.where == condition
                table = app.pane.query_one("#kernels-table", Table)
                assert (table.row or {})["total_ns"] == row["total_ns"]
                app.choose(where="", level="op")
                app.show("overview")
                await settled(pilot)

    driven(flow)


@pytest.mark.thorough
def test_the_traces_of_a_selection_count_as_its_cards_do(tmp_path: Path) -> None:
    """One run, of which the launches count; of a Selection without these, the sums of a report do."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    report = {"origin": "report", "signature_id": "s:gemm:1:", "timing": "timeline", "n": 3000, "total_ns": 300}
    warehouse.commit(make("launches", (Launch("gemm", 0, 500),), stated_run="job"))
    warehouse.commit(make("sums", (), kind="summary", source="nsys", stated_run="job", reports=(report,)))
    warehouse.commit(make("other", (Launch("gemm", 0, 20),)))
    shown = {
        (): [(1, 500, ""), (0, None, "not primary"), (1, 20, "")],
        ("sums", "other"): [(1, 500, ""), (3000, 300, "◂ selected"), (1, 20, "◂ selected")],
        ("sums",): [(1, 500, ""), (3000, 300, "◂ selected"), (1, 20, "")],
    }

    async def flow() -> None:
        async with opened(warehouse.path, size=(120, 40)) as (app, pilot):
            for traces, expected in shown.items():
                app.choose(traces=traces)
                await settled(pilot)
                rows = [table_of(app, "traces").rows.row(place) or {} for place in range(3)]
                assert [(row["launches"], row["total_ns"], row["note"]) for row in rows] == expected

    driven(flow)


@pytest.mark.thorough
def test_a_damaged_clock_leaves_years(tmp_path: Path) -> None:
    """One launch at 0, the others at the time of day: windows of which no 64 bits hold 32 times as much."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    today = 1_763_500_000_000_000_000
    launches = [Launch("gemm", start, 6_000, device=device) for device in range(8) for start in (0, today)]
    facts = {"window_start_ns": 0, "window_end_ns": today + 6_000}
    warehouse.commit(make("clock", tuple(launches), **facts))

    async def flow() -> None:
        async with opened(warehouse.path, size=(140, 40)) as (app, _):
            assert app.pane.state == "ready"
            cards = app.pane.query_one(Cards).values
            assert (cards["wall, summed"], cards["GPU busy"]) == ("447 y", "0.0 %")
            assert (table_of(app, "streams").row or {})["bins"] == [0, 31]
            assert "55.9 y" in text_of(app)
            assert "does not work" not in text_of(app)

    driven(flow)


@pytest.mark.thorough
def test_enter_on_sums_opens_the_largest_signature(sums: Path) -> None:
    async def flow() -> None:
        async with opened(sums, size=(110, 40)) as (app, pilot):
            for level, name in itertools.product(("op", "signature"), ("top", "categories")):
                app.choose(level=level)
                app.signature = None
                app.show("overview")
                await settled(pilot)
                table_of(app, name).focus()
                await press(pilot, "enter")
                assert (app.pane.id, app.signature, app.choice.where) == ("pane-kernel", "s:gemm:2:", "")
            await press(pilot, "n")
            assert app.signature == "s:gemm:1:"

    driven(flow)
