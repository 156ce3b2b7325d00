"""What is at the cursor of the timeline: keys right after a move begin where it went; nothing old is shown of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Static

from kerneldb.tui.screens.timeline import TimelinePane
from tests.tui.piloting import press, settled, text_of
from tests.tui.test_promptness import burst
from tests.tui.test_timeline import run, several, steps, timeline_of

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough

__all__ = ["several", "steps"]


def at_cursor(pane: TimelinePane) -> tuple[str, int]:
    assert pane.launch is not None
    return pane.launch["short_name"], pane.launch["start_ns"]


def test_a_step_right_behind_moves_begins_where_they_went(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        await press(pilot, "full_stop")
        assert at_cursor(pane) == ("add", 450)
        burst(app, *["right"] * 36, "full_stop")
        await settled(pilot)
        assert pane.cursor_ns // pane._stretch(0, pane.axis.end_ns).step_ns == 36
        assert at_cursor(pane) == ("add", 17_450)
        burst(app, "home", "n")
        await settled(pilot)
        assert at_cursor(pane) == ("gemm", 1_100)

    run(steps, flow)


def test_going_back_finds_what_was_there(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        assert at_cursor(pane) == ("gemm", 100)
        await press(pilot, "full_stop")
        assert at_cursor(pane) == ("add", 450)
        await press(pilot, "left")
        assert at_cursor(pane) == ("gemm", 100)

    run(steps, flow)


def test_keys_right_behind_a_move_are_about_the_launch_there(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        burst(app, "down", "f")
        await settled(pilot)
        assert at_cursor(pane) == ("nccl", 200)
        assert pane.last_ns - pane.first_ns == 8 * 700
        await press(pilot, "0")
        burst(app, "up", "enter")
        await settled(pilot)
        assert app.signature == "s:gemm:1:aten::mm"

    run(steps, flow)


def test_the_line_tells_no_launch_of_elsewhere(steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane, gate, read = timeline_of(app), asyncio.Event(), app.store.read

        async def late(*work: Any, **options: Any) -> Any:
            await gate.wait()
            return await read(*work, **options)

        monkeypatch.setattr(app.store, "read", late)
        assert str(pane.query_one("#launch", Static).content).startswith("gemm")
        await pilot.press("down")
        assert str(pane.query_one("#launch", Static).content).strip() == "…  steps · GPU 0 · stream 20"
        assert pane.copies() == []
        gate.set()
        await settled(pilot)
        assert str(pane.query_one("#launch", Static).content).startswith("nccl")
        assert pane.copies()[0].text == "nccl<float>(int)"

    run(steps, flow)


def test_an_analysis_about_another_place_is_not_taken(steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane, gate, read = timeline_of(app), asyncio.Event(), app.store.read
        reads = itertools.count()
        held = asyncio.Event()

        async def late(*work: Any, **options: Any) -> Any:
            second, found = next(reads) == 1, await read(*work, **options)
            if second:  # the first one asks for the bins in view
                held.set()
                await gate.wait()
            return found

        await press(pilot, "w", "right", "right", "right", "right")
        pane.launch = pane._found_at = None
        monkeypatch.setattr(app.store, "read", late)
        pane._moved()
        await held.wait()
        await pilot.press("down")
        while pane.launch is None:
            await pilot.pause(0.01)
        gate.set()
        await settled(pilot)
        assert pane.lane is not None
        assert (pane.lane.label, at_cursor(pane)[0]) == ("s20", "nccl")

    run(steps, flow)


def test_where_a_kernel_comes_no_more_the_message_is_about_the_kernel(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "N", "comma")
        said = [note.message for note in app._notifications]
        assert said == ["No further launch of this kernel in this lane.", "No further launch in this lane."]
        assert "of this kernel" in text_of(app)

    run(steps, flow)
