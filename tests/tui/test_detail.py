"""The screen Kernel: the page of `show`, the distribution of durations, the launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.screens.detail import DetailPane
from kerneldb.tui.widgets.histogram import Histogram
from kerneldb.tui.widgets.table import Table
from tests.tui.piloting import driven, opened, press, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


@pytest.fixture(scope="module")
def order(trace_database: Path) -> list[str]:
    """The signatures, most time first."""
    return [row["signature_id"] for row in kerneldb.open(trace_database).top("signature").rows()]


def pane_of(app: KerneldbApp) -> DetailPane:
    pane = app.pane
    assert isinstance(pane, DetailPane)
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
