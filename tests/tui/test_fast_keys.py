"""Keys that are pressed faster than the answers come: each of them counts, and none is about what was there before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.api import timeline
from kerneldb.selection import Selection
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.kernel import KernelPane
from kerneldb.tui.widgets.table import Table
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.tui.test_promptness import burst
from tests.tui.test_timeline import ask, run, several, steps, timeline_of

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

__all__ = ["several", "steps"]


pytestmark = pytest.mark.thorough


def start_of(app: KerneldbApp) -> int:
    launch = timeline_of(app).launch
    assert launch is not None
    return int(launch["start_ns"])


@pytest.mark.parametrize("where", ["", "duration_ns > 0"])
def test_every_press_of_a_step_counts_on_the_timeline(steps: Path, where: str) -> None:
    """At the edges nothing is left to go back by, and more presses than launches lead to the last one."""
    bursts = (
        (["full_stop", "n", "n", "comma"], 2_100),
        (["full_stop"] * 30 + ["comma"] * 2, 16_100),
        (["comma"] * 50 + ["full_stop"], 450),
        (["full_stop"] * 200, 39_450),
    )

    async def flow() -> None:
        async with opened(steps, Choice(where), first="timeline") as (app, pilot):
            assert start_of(app) == 100
            for keys, start in bursts:
                app.clear_notifications()
                burst(app, *keys)
                await settled(pilot)
                assert start_of(app) == start
            assert {note.message for note in app._notifications} == {"No further launch in this lane."}

    driven(flow)


@pytest.mark.parametrize("where", [None, "duration_ns > 0"])
def test_a_step_goes_many_launches_on(steps: Path, where: str | None) -> None:
    def walk(con: Any) -> None:
        axis, lane = timeline.axis(con, ()), timeline.Lane(0, None, 0, 14)
        for reach in (1, 1_000, 1_000_000):
            for times, start, passed in ((1, 20_450, 1), (7, 23_450, 7), (1_000, 39_450, 39)):
                step = timeline.Step("next", 20_100, 60, reach, times=times)
                found = timeline.neighbour(con, axis, Selection(where), lane, step)
                assert found is not None
                assert (found["start_ns"], found["steps"]) == (start, passed), (reach, times)

    ask(steps, walk)


def test_keys_behind_steps_are_about_where_they_lead_to(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        burst(app, "full_stop", "full_stop", "full_stop", "m")
        await settled(pilot)
        assert pane.mark_ns == 1_350  # the axis begins at 100
        burst(app, "full_stop", "full_stop", "right")
        await settled(pilot)
        assert pane.cursor_ns == 2_350 + pane._stretch(0, pane.axis.end_ns).step_ns
        burst(app, "home", "full_stop", "full_stop", "full_stop", "enter")
        await settled(pilot)
        assert (app.pane.id, app.signature) == ("pane-kernel", "s:add:1:aten::add")

    run(steps, flow)


def test_steps_end_where_the_selection_becomes_another_one(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        gate = asyncio.Event()

        async def late(*work: Any, **options: Any) -> Any:
            await gate.wait()
            return await read(*work, **options)

        await press(pilot, "down")
        read = app.store.read
        monkeypatch.setattr(app.store, "read", late)
        await pilot.press("full_stop", "full_stop")
        monkeypatch.setattr(app.store, "read", read)
        app.choose(traces=("rank1",))
        await pilot.pause(0.1)
        gate.set()
        await settled(pilot)
        assert start_of(app) == 7_100
        assert timeline_of(app).cursor_ns == 0

    run(several, flow)


# The screen of one kernel.


@pytest.fixture(scope="module")
def order(trace_database: Path) -> list[str]:
    """The signatures, most time first."""
    return [row["signature_id"] for row in kerneldb.open(trace_database).top("signature").rows()]


def detail_of(app: KerneldbApp) -> KernelPane:
    pane = app.pane
    assert isinstance(pane, KernelPane)
    return pane


def test_every_press_of_a_step_counts_on_the_kernel(trace_database: Path, order: list[str]) -> None:
    bursts = ((["full_stop"] * 3 + ["comma"], 0, 2), (["n", "n", "p", "full_stop", "full_stop"], 1, 2))

    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 40)) as (app, pilot):
            for keys, signature, launch in bursts:
                burst(app, *keys)
                await settled(pilot)
                page = detail_of(app).page
                assert page is not None
                assert page.signature_id == order[signature]
                assert f"launch {launch} of" in text_of(app)

    driven(flow)


def test_launches_go_by_while_the_key_is_held_down(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is shown, though the next key comes before it."""

    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 40)) as (app, pilot):
            read = app.store.read

            async def then_press(*work: Any, **options: Any) -> Any:
                burst(app, "full_stop")
                await asyncio.sleep(0.02)
                return await read(*work, **options)

            monkeypatch.setattr(app.store, "read", then_press)
            await pilot.press("full_stop")
            async with asyncio.timeout(60):
                while detail_of(app).launch is None:
                    await asyncio.sleep(0.01)
            monkeypatch.setattr(app.store, "read", read)
            await settled(pilot)

    driven(flow)


def test_the_screen_follows_the_cursor_of_the_others(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(level="signature"), first="kernels") as (app, pilot):
            await press(pilot, "3", "2", "down", "down")
            row = app.pane.query_one(Table).row
            assert row is not None
            await press(pilot, "3")
            page = detail_of(app).page
            assert page is not None
            assert page.signature_id == app.signature == row["signature_id"]

    driven(flow)
