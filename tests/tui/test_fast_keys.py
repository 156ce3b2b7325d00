"""Keys that are pressed faster than the answers come: each of them counts, and none is about what was there before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.api import timeline
from kerneldb.selection import Selection
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.detail import DetailPane
from kerneldb.tui.widgets.table import Table
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.tui.test_promptness import burst
from tests.tui.test_timeline import ask, run, several, steps, timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

__all__ = ["several", "steps"]


def start_of(app: KerneldbApp) -> int:
    launch = timeline_of(app).launch
    assert launch is not None
    return int(launch["start_ns"])


@pytest.mark.parametrize("where", ["", "duration_ns > 0"])
@pytest.mark.parametrize(
    ("keys", "start"),
    [
        (["full_stop"] * 5, 2_450),
        (["full_stop"] * 30 + ["comma"] * 2, 14_100),
        (["n", "n", "n"], 3_100),
        (["full_stop", "n", "n", "comma"], 2_100),
        # At the edge nothing is left to go back by.
        (["comma"] * 3 + ["full_stop"], 450),
    ],
)
def test_every_press_of_a_step_counts_on_the_timeline(steps: Path, where: str, keys: list[str], start: int) -> None:
    async def flow() -> None:
        async with opened(steps, Choice(where), first="timeline") as (app, pilot):
            assert start_of(app) == 100
            burst(app, *keys)
            await settled(pilot)
            assert start_of(app) == start

    driven(flow)


def test_more_presses_than_launches_lead_to_the_last_one_and_say_so(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        burst(app, *["full_stop"] * 200)
        await settled(pilot)
        assert start_of(app) == 39_450
        assert {note.message for note in app._notifications} == {"No further launch in this lane."}

    run(steps, flow)


@pytest.mark.parametrize(("times", "start", "passed"), [(1, 20_450, 1), (7, 23_450, 7), (1_000, 39_450, 39)])
@pytest.mark.parametrize("reach", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("where", [None, "duration_ns > 0"])
def test_a_step_goes_many_launches_on(
    steps: Path, where: str | None, reach: int, times: int, start: int, passed: int
) -> None:
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    lane = timeline.Lane(0, None, 0, 14)
    step = timeline.Step("next", 20_100, 60, reach, times=times)
    found = ask(steps, lambda con: timeline.neighbour(con, axis, Selection(where), lane, step))
    assert (found["start_ns"], found["steps"]) == (start, passed)


@pytest.mark.parametrize(
    ("key", "shown"), [("enter", "pane-kernel"), ("m", "pane-timeline"), ("right", "pane-timeline")]
)
def test_keys_behind_steps_are_about_where_they_lead_to(steps: Path, key: str, shown: str) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        burst(app, "full_stop", "full_stop", "full_stop", key)
        await settled(pilot)
        assert app.pane.id == shown
        if key == "enter":
            assert app.signature == "s:add:1:aten::add"
        elif key == "m":
            assert pane.mark_ns == 1_350  # the axis begins at 100
        else:
            assert pane.cursor_ns == 1_350 + pane._stretch(0, pane.axis.end_ns).step_ns

    run(steps, flow)


def test_steps_end_where_the_selection_becomes_another_one(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        gate = asyncio.Event()

        async def late(work: Callable[[Any], Any]) -> Any:
            await gate.wait()
            return await read(work)

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


def detail_of(app: KerneldbApp) -> DetailPane:
    pane = app.pane
    assert isinstance(pane, DetailPane)
    return pane


@pytest.mark.parametrize(
    ("keys", "signature", "launch"),
    [
        (["full_stop"] * 3, 0, 3),
        (["full_stop"] * 3 + ["comma"], 0, 2),
        (["full_stop", "n", "full_stop", "full_stop"], 1, 2),
        (["n", "n", "p", "full_stop"], 1, 1),
    ],
)
def test_every_press_of_a_step_counts_on_the_kernel(
    trace_database: Path, order: list[str], keys: list[str], signature: int, launch: int
) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernel", size=(120, 40)) as (app, pilot):
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

            async def then_press(work: Callable[[Any], Any]) -> Any:
                burst(app, "full_stop")
                await asyncio.sleep(0.02)
                return await read(work)

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
