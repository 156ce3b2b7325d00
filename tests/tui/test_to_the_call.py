"""From a kernel or a launch on any screen to the call that launched it: one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.diff import DiffPane
from kerneldb.tui.screens.kernel import KernelPane
from kerneldb.tui.screens.roofline import RooflinePane
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.tui.widgets.table import Table
from tests.tui import pictures
from tests.tui.piloting import driven, opened, press, text_of
from tests.tui.test_offered_keys import working

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Level

pytestmark = pytest.mark.thorough

CALL = "SELECT k.launch_index, k.launch_start_ns, k.api_call, count(*) OVER () AS n FROM kernels AS k WHERE {} LIMIT 1"
LONGEST = "signature_id = '{}' AND timing = 'timeline' ORDER BY duration_ns DESC, start_ns"


def asked(path: Path, condition: str) -> dict[str, Any]:
    """The first launch that meets a condition, in its order, and how many do."""
    (row,) = kerneldb.open(path, create=False).sql(CALL.format(condition)).rows()
    return row


def asked_rows(path: Path, sql: str) -> list[dict[str, Any]]:
    return kerneldb.open(path, create=False).sql(sql).rows()


def at(app: KerneldbApp) -> tuple[str, int]:
    """The name of the call that the cursor is on, and when it began by the clock of its trace."""
    pane = app.pane
    assert isinstance(pane, TimelinePane)
    assert pane.track is not None
    assert pane.track.kind == "API calls"
    assert pane._event is not None
    return pane._event.text, pane.cursor_ns - pane.axis.traces[pane.track.number].shift_ns


async def go(app: KerneldbApp, pilot: Any, path: Path, condition: str, *, several: bool) -> None:
    """`c`; the cursor is on the call of the launch that meets a condition, and what is not said by it is said."""
    found = asked(path, condition)
    await press(pilot, "c")
    assert at(app) == (found["api_call"], found["launch_start_ns"])
    said = f"the longest of {found['n']:,} launches"
    assert any(said in note.message for note in app._notifications) == (several and found["n"] > 1)
    assert "launched 1 activity" in text_of(app)
    await press(pilot, "c")  # and back
    assert isinstance(app.pane, TimelinePane)
    assert app.pane.launch is not None
    assert (app.pane.track, app.pane.launch["launch_index"]) == (None, found["launch_index"])


@pytest.mark.parametrize("level", ["op", "kernel", "signature"])
@pytest.mark.parametrize("screen", ["overview", "kernels"])
def test_from_a_row_to_the_call_of_its_longest_launch(trace_database: Path, screen: str, level: Level) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(level=level), first=screen) as (app, pilot):
            assert "Call" in working(app)
            await press(pilot, "down")
            row = app.pane.query(Table).first().row
            assert row is not None
            await go(app, pilot, trace_database, LONGEST.format(row["signature_id"]), several=True)

    driven(flow)


def test_from_a_launch_to_its_call(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(level="launch"), first="kernels") as (app, pilot):
            await press(pilot, "down", "down", "down")
            row = app.pane.query_one(Table).row
            assert row is not None
            await go(app, pilot, trace_database, f"launch_index = {row['launch_index']}", several=False)

    driven(flow)


def test_from_a_kernel_and_from_the_launch_that_it_tells_of(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernel") as (app, pilot):
            await press(pilot, "n")
            assert isinstance(app.pane, KernelPane)
            await go(app, pilot, trace_database, LONGEST.format(app.signature), several=True)
            await press(pilot, "3", "full_stop", "full_stop")
            assert app.pane.launch is not None
            app.clear_notifications()
            await go(app, pilot, trace_database, f"launch_index = {app.pane.launch['launch_index']}", several=False)

    driven(flow)


def test_a_launch_begins_at_the_same_time_on_all_screens(trace_database: Path) -> None:
    (row,) = asked_rows(
        trace_database,
        "SELECT launch_index, start_ns - min(start_ns) OVER () AS ns FROM kernels WHERE timing = 'timeline' "
        "QUALIFY count(*) OVER (PARTITION BY signature_id) = 1 AND ns > 1000000 ORDER BY ns LIMIT 1",
    )
    shown = f"at {row['ns'] / 1e6:,.6f} ms"

    async def flow() -> None:
        where = f"launch_index = {row['launch_index']}"
        async with opened(trace_database, Choice(where, level="launch"), first="kernels", size=(160, 48)) as (
            app,
            pilot,
        ):
            table = app.pane.query_one(Table)
            assert (table.row or {})["offset_ns"] == row["ns"]
            assert f"start      {shown[3:]}" in text_of(app)
            await press(pilot, "n", "full_stop")
            assert shown in text_of(app)
            await press(pilot, "4")
            assert shown in text_of(app)

    driven(flow)


def test_from_a_dot_of_the_roofline(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="roofline") as (app, pilot):
            await press(pilot, "down")
            assert isinstance(app.pane, RooflinePane)
            signature = app.pane.rows[app.pane.place]["signature_id"]
            await go(app, pilot, trace_database, LONGEST.format(signature), several=True)

    driven(flow)


def test_from_a_row_of_sql(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            for columns in ("signature_id", "trace_id, launch_index"):
                edit = app.pane.query_one("SqlEditor")
                edit.load_text(f"FROM selection SELECT {columns} ORDER BY start_ns DESC LIMIT 3")  # type: ignore[attr-defined]
                await press(pilot, "ctrl+j", "escape")
                row = app.pane.query_one(Table).row
                assert row is not None
                is_launch = "launch_index" in row
                wanted = f"launch_index = {row['launch_index']}" if is_launch else LONGEST.format(row["signature_id"])
                app.clear_notifications()
                await go(app, pilot, trace_database, wanted, several=not is_launch)
                await press(pilot, "8")

    driven(flow)


def test_from_a_row_of_a_comparison_to_its_call_in_b(tmp_path: Path) -> None:
    path = pictures.pair(tmp_path)

    async def flow() -> None:
        async with opened(path, first="diff") as (app, pilot):
            await press(pilot, "u")
            assert isinstance(app.pane, DiffPane)
            row = app.pane.query_one(Table).row
            assert row is not None
            assert row["signature_after"]
            wanted = f"trace = 'second' AND {LONGEST.format(row['signature_after'])}"
            await go(app, pilot, path, wanted, several=True)

    driven(flow)


def test_where_there_is_none_it_is_said(trace_database: Path, sums: Path, tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql") as (app, pilot):
            await press(pilot, "escape", "c")
            assert "No kernel and no launch is under the cursor." in text_of(app)
        async with opened(sums, first="kernels") as (app, pilot):
            await press(pilot, "c")
            assert "No timeline here." in text_of(app)
            assert app.pointed is None
            await press(pilot, "3")
            assert "Call" in working(app)
        async with opened(pictures.empty(tmp_path), first="kernels") as (app, pilot):
            assert "Call" not in working(app)
            await press(pilot, "c")
            assert app.pane.TITLE == "Kernels"

    driven(flow)
