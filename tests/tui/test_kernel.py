"""The screen Kernel: the page of `show`, the distribution of durations, the launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.kernel import COUNTERS, Histogram, KernelPane
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of, unwrapped
from tests.warehouse.conftest import KERNELS, Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def order(trace_database: Path) -> list[str]:
    """The signatures, most time first."""
    return [row["signature_id"] for row in kerneldb.open(trace_database).top("signature").rows()]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (404_700.25, "404,700"), (1_000.4, "1,000"), (999.96, "1,000"), (999.9, "999.9"), (12.3456, "12.35"),
        (0.0, "0"), (-5_000.0, "-5,000"), (1_234_567.0, "1.23 M"), (None, "–"),
    ],
)  # fmt: skip
def test_counters_are_written_without_exponents(value: float | None, written: str) -> None:
    (column,) = (one for one in COUNTERS if one.key == "mean")
    assert column.write(value).strip() == written


def pane_of(app: KerneldbApp) -> KernelPane:
    pane = app.pane
    assert isinstance(pane, KernelPane)
    return pane


def test_it_shows_the_page_of_show(trace_database: Path, order: list[str]) -> None:
    page = kerneldb.open(trace_database).show(order[0])

    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 60)) as (app, pilot):
            assert pane_of(app).page == page
            shown = text_of(app)
            for fields in page.sections.values():
                for key, value in fields.items():
                    if value is not None and key not in {"name", "demangled", "match_name", "decoded", "template"}:
                        assert key in shown
            assert page.sections["identity"]["short_name"] in shown
            (row,) = page.tables["times"]
            table = app.pane.query_one("#overview-times", Table)
            assert table.row == row
            await press(pilot, "ctrl+y")
            assert app.clipboard == f"kerneldb --db {trace_database} show {order[0]}"
            await press(pilot, "y", "i")
            assert app.clipboard == order[0]

    driven(flow)


def test_n_and_p_walk_through_the_signatures(trace_database: Path, order: list[str]) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(80, 24)) as (app, pilot):
            for key, place in (("n", 1), ("n", 2), ("p", 1), ("p", 0), ("p", -1)):
                await press(pilot, key)
                assert app.signature == order[place]
                assert (pane_of(app).page or page_missing()).signature_id == order[place]

    driven(flow)


def page_missing() -> Any:
    pytest.fail("no page is loaded")


def test_the_histogram_counts_every_launch_and_a_range_becomes_a_condition(trace_database: Path) -> None:
    (wanted,) = (
        kerneldb.open(trace_database)
        .sql(
            "SELECT signature_id, count(*) AS n, min(duration_ns) AS low, max(duration_ns) AS high FROM kernels "
            "GROUP BY 1 HAVING min(duration_ns) < max(duration_ns) ORDER BY n DESC, 1 LIMIT 1"
        )
        .rows()
    )

    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 40)) as (app, pilot):
            app.show_signature(wanted["signature_id"])
            await press(pilot, "tab", "3")
            histogram = app.pane.query_one(Histogram)
            assert sum(one.n for one in histogram.bins) == wanted["n"]
            assert (histogram.bins[0].low, histogram.bins[-1].high) == (wanted["low"], wanted["high"])
            histogram.focus()
            await press(pilot, "right", "shift+right", "enter")
            first = histogram.bins[:2]
            assert app.pane.id == "pane-kernels"
            assert app.choice.level == "launch"
            assert len(app.pane.query_one(Table).rows) == sum(one.n for one in first)

    driven(flow)


def test_launches_are_walked_through(trace_database: Path, order: list[str]) -> None:
    expected = kerneldb.open(trace_database).sql(
        "SELECT launch_index FROM kernels WHERE signature_id = $id ORDER BY launch_index", {"id": order[0]}
    )
    indexes = [row["launch_index"] for row in expected.rows()]

    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 40)) as (app, pilot):
            await press(pilot, "full_stop")
            assert (pane_of(app).launch or {})["launch_index"] == indexes[0]
            assert f"launch 1 of {len(indexes):,}" in text_of(app)
            await press(pilot, "comma")
            assert (pane_of(app).launch or {})["launch_index"] == indexes[-1]

    driven(flow)


def launches_of(app: KerneldbApp) -> list[int]:
    assert app.pane.id == "pane-kernels"
    table = app.pane.query_one("#kernels-table", Table)
    return [(table.rows.row(place) or {})["launch_index"] for place in range(len(table.rows))]


@pytest.mark.parametrize(
    ("phases", "default", "where", "expected"),
    [
        pytest.param(("forward", None, None), None, " AND phase IS NULL", [1, 2], marks=pytest.mark.volume),
        (("forward", None, None), "decode", " AND phase = 'decode'", [1, 2]),
        ((None, None, None), None, "", [0, 1, 2]),
    ],
)
def test_launches_without_a_phase_are_told_from_those_that_have_one(
    tmp_path: Path, phases: tuple[str | None, ...], default: str | None, where: str, expected: list[int]
) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    launches = tuple(Launch("gemm", 10 * place, 9, phase=phase) for place, phase in enumerate(phases))
    warehouse.commit(make("one", launches, default_phase=default))
    warehouse.commit(make("two", (Launch("gemm", 0, 9, phase="backward"),)))

    async def flow() -> None:
        async with opened(warehouse.path, first="kernel", size=(120, 40)) as (app, pilot):
            table = app.pane.query_one("#overview-times", Table)
            rows = [table.rows.row(place) or {} for place in range(len(table.rows))]
            place = next(place for place, row in enumerate(rows) if row["phase"] is None)
            table.focus()
            await press(pilot, *["down"] * place, "enter")
            assert app.choice == Choice(f"signature_id = 's:gemm:1:'{where}", ("one",), "launch")
            assert launches_of(app) == expected

    driven(flow)


def test_launches_of_no_time_are_among_those_taken(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    durations = (0, 1, 0, 5_000)
    warehouse.commit(make("one", tuple(Launch("gemm", 9 * at, ns) for at, ns in enumerate(durations))))

    async def flow() -> None:
        async with opened(warehouse.path, first="kernel", size=(120, 40)) as (app, pilot):
            histogram = app.pane.query_one(Histogram)
            assert (histogram.bins[0].low, histogram.bins[0].high) == (0, 1)
            histogram.focus()
            await press(pilot, "right", "enter")
            assert app.choice.where.endswith("(duration_ns BETWEEN 0 AND 1)")
            assert launches_of(app) == [0, 1, 2]

    driven(flow)


def test_sums_alone_say_why_there_are_no_launches(sums: Path) -> None:
    async def flow() -> None:
        async with opened(sums, first="kernel", size=(120, 40)) as (app, pilot):
            for key in ("l", "full_stop"):
                assert text_of(app).count("no single launches: its traces report sums only") == 1
                await press(pilot, key)
                assert (app.pane.id, app.choice) == ("pane-kernel", Choice())
                assert "nosinglelaunches" in unwrapped(app).split("Nolaunchestoshow")[1]
                app.clear_notifications()
                await settled(pilot)
            app.pane.query_one("#overview-times", Table).focus()
            await press(pilot, "enter")
            assert app.pane.id == "pane-kernel"
            assert "No launches to show" in text_of(app)

    driven(flow)


def test_launches_outside_of_the_selection_are_named(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("near", (Launch("gemm", 0, 9), Launch("gemm", 20, 10))))
    warehouse.commit(make("far", (Launch("add", 0, 9),)))

    async def flow() -> None:
        async with opened(warehouse.path, Choice("", ("near",)), first="kernel", size=(120, 40)) as (app, pilot):
            assert "2 launches took" in text_of(app)
            app.choose(traces=("far",))
            await settled(pilot)
            assert app.signature == "s:gemm:1:"
            assert "2 launches of it, outside of the Selection: in near" in text_of(app)
            await press(pilot, "l")
            assert app.pane.id == "pane-kernel"
            assert "No launches to show" in text_of(app)
            app.choose(traces=("near",))
            await settled(pilot)
            await press(pilot, "l")
            assert launches_of(app) == [0, 1]

    driven(flow)


def test_a_long_name_leaves_room_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "void kernel<" + "std::complex<float>, " * 150 + "int>(int)"
    monkeypatch.setitem(KERNELS, "gemm", {"name": name, "short_name": "K" * 3_000})
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(Traces(tmp_path)("one", tuple(Launch("gemm", 0, ns) for ns in (9, 90))))

    async def flow() -> None:
        async with opened(warehouse.path, first="kernel", size=(80, 24)) as (app, pilot):
            for width, height in ((80, 24), (160, 36)):
                await pilot.resize_terminal(width, height)
                await settled(pilot)
                lines = text_of(app).splitlines()
                end = next(place for place, line in enumerate(lines) if "copies the whole name" in line)
                assert sum("complex" in line for line in lines) == 4
                assert lines[end - 1].endswith("…")
                assert max(map(len, lines[end - 4 : end])) > width - 30
                assert "2 launches took" in text_of(app)
            await press(pilot, "y", "n")
            assert app.clipboard == name

    driven(flow)
