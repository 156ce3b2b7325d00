"""Replay: the plan is that of the command line, and a run in a process of its own is followed, stopped and resumed."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import inheriting
from kerneldb.api.planning import Request
from kerneldb.api.resuming import Files
from kerneldb.cli import cli
from kerneldb.errors import WarehouseMissingError
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import run as host
from kerneldb.tui import replay_child, replay_process
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.dialogs import Confirm
from kerneldb.tui.model import Choice
from kerneldb.tui.replay_child import Order
from kerneldb.tui.screens.replay import Lines, ReplayPane
from kerneldb.tui.store import Store
from tests.tui.piloting import driven, opened, press, settled, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

CPU_S = 300.0
"""Two processes load PyTorch one after the other, which alone takes most of a minute where others are at work."""

TALKS = """
    import json, signal, sys, time
    order = json.load(sys.stdin)
    def say(**event):
        print(json.dumps(event), flush=True)
    def stop(*_):
        say(event="done", run="r1", finished=False, interrupted=True, grades={"L0": 1}, wall_s=1, energy_reason=None)
        sys.exit(0)
    signal.signal(signal.SIGINT, stop)
    say(event="planned", calls=4)
    say(event="start", items=4, settled=0, run="r1")
    say(event="progress", item="a", kernel="gemm_kernel", grade="L0", done=1, total=4, eta_s=75, sm_mhz=1980,
        power_w=512.4, temperature_c=41)
    say(event="progress", item="b", kernel="odd_kernel", grade="L3", done=2, total=4, eta_s=50, sm_mhz=1755,
        power_w=600.1, temperature_c=44)
    say(event="worker", reason="killed by SIGSEGV")
"""
WAITS = TALKS + "    time.sleep(60)\n"
NO_DEVICE = "cuda:0: no CUDA device (this PyTorch is built without CUDA)"
FAILS = f"""
    import json
    print(json.dumps({{"event": "failed", "message": {NO_DEVICE!r}}}))
"""
DIES = "    raise SystemExit('no module named torch')"


def fake(text: str) -> tuple[str, ...]:
    """A command that acts as the process of a replay."""
    return (sys.executable, "-c", textwrap.dedent(text))


def run(
    path: Path,
    flow: Callable[[KerneldbApp, Any], Coroutine[Any, Any, None]],
    command: Sequence[str] = replay_process.COMMAND,
    choice: Choice | None = None,
) -> None:
    async def whole() -> None:
        async with opened(path, choice, first="replay", size=(120, 30)) as (app, pilot):
            pane_of(app).command_of_child = command
            await flow(app, pilot)

    driven(whole)


def pane_of(app: KerneldbApp) -> ReplayPane:
    assert isinstance(app.pane, ReplayPane)
    return app.pane


def total_of(pane: ReplayPane) -> dict[str, Any]:
    return next(row for row in pane.plan if row["category"] == "TOTAL")


def lines_of(pane: ReplayPane) -> list[dict[str, Any]]:
    """The plan without its sums, which programs get from the lines."""
    return [row for row in pane.plan if not row["category"].startswith("TOTAL")]


def printed(line: str | None, *more: str) -> list[dict[str, Any]]:
    assert line is not None
    result = CliRunner().invoke(cli, [*shlex.split(line)[1:], *more, "--json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


async def until(what: Callable[[], bool], pilot: Any, seconds: float = 20.0, pause: float = 0.02) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await pilot.pause(pause)


@pytest.mark.parametrize("where", [pytest.param("", marks=pytest.mark.volume), "category = 'GEMM'"])
def test_the_plan_is_that_of_the_command_line(trace_database: Path, where: str) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        pane = pane_of(app)
        assert lines_of(pane) == printed(pane.command(), "--dry-run")
        table = app.query_one("#plan", Lines)
        assert [table.rows.row(index) for index in range(len(table.rows))] == pane.plan
        assert f"{total_of(pane)['launches']:,} launches" in text_of(app)

    run(trace_database, flow, choice=Choice(where))


def test_keys_set_how_to_replay_and_the_command_says_it(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        everything = total_of(pane)["signatures"]
        await press(pilot, "c", "g", "plus", "u", "u", "v", "v", "v", "v")
        line = pane.command() or ""
        for option in ("--cache cold", "--no-energy", "--runs 24", "--until-time 95%", "--device cpu"):
            assert option in line
        assert total_of(pane)["signatures"] < everything
        assert lines_of(pane) == printed(line, "--dry-run")
        await press(pilot, "minus", "minus")
        assert "6 runs" in text_of(app)

    run(trace_database, flow)


def test_the_plan_sorts_with_its_sum_at_the_end(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        table = app.query_one("#plan", Lines)
        await press(pilot, "s")
        while table.sort is None or table.sort[0] != "launches":
            await press(pilot, "s")
        rows = [table.rows.row(index) or {} for index in range(len(table.rows))]
        end = [row["category"] for row in rows].index("TOTAL")
        launches = [row["launches"] for row in rows]
        assert end > 2
        assert launches[:end] == sorted(launches[:end], reverse=True)
        assert launches[end] == sum(launches[:end])

    run(trace_database, flow)


def test_a_run_is_shown_while_it_goes_on_and_stops(database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await pilot.press("enter")
        await until(lambda: pane.progress is not None and bool(pane.progress.deaths), pilot)
        shown = text_of(app)
        assert "2 of 4 calls" in shown
        assert "50.0 s left" in shown
        assert "1 × L0  1 × L3" in shown
        assert "now odd_kernel" in shown
        assert "a worker ended: killed by SIGSEGV" in shown
        assert pane.progress is not None
        assert list(pane.progress.readings["power_w"]) == [512.4, 600.1]
        assert "power in W" in shown
        assert pane.busy() is not None
        plan, pane.plan = pane.plan, []
        await pilot.press("f5")
        await until(lambda: app.store.waiting == 0, pilot)
        assert pane.plan == [], "a run goes on"
        assert "2 of 4 calls" in text_of(app)
        pane.plan = plan
        await pilot.press("q")
        await until(lambda: isinstance(app.screen, Confirm), pilot)
        await pilot.press("n")
        assert pane.is_running
        await pilot.press("c", "x")
        await settled(pilot)
        assert not pane.is_running
        assert pane.progress.ended == "stopped"
        assert "last odd_kernel" in text_of(app)
        assert " left" not in text_of(app)
        assert pane.settings.options.cache == "mixed"
        assert pane.busy() is None

    run(database, flow, fake(WAITS))


@pytest.mark.parametrize("key", ["x", pytest.param("space", marks=pytest.mark.volume)])
def test_a_run_that_is_told_to_stop_says_so_until_it_has(database: Path, tmp_path: Path, key: str) -> None:
    ends = tmp_path / "ends"
    lingers = f"""
    import json, pathlib, signal, sys, time
    json.load(sys.stdin)
    signal.signal(signal.SIGINT, lambda *_: None)
    print(json.dumps({{"event": "planned", "calls": 4}}), flush=True)
    while not pathlib.Path({str(ends)!r}).exists():
        time.sleep(0.02)
    """

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await pilot.press("enter")
        await until(lambda: pane.progress is not None and pane.progress.total == 4, pilot)
        assert "running; x stops" in text_of(app)
        await pilot.press(key)
        await until(lambda: "stopping…" in text_of(app), pilot)
        assert "running; x stops" not in text_of(app)
        ends.touch()
        await settled(pilot)
        assert "stopping…" not in text_of(app)

    run(database, flow, fake(lingers))


@pytest.mark.thorough
def test_the_line_of_keys_has_those_that_do_something(database: Path) -> None:
    def keys(app: KerneldbApp) -> str:
        return text_of(app).splitlines()[-1]

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert "⏎ Replay" in keys(app)
        assert "Stop" not in keys(app)
        assert "Pause" not in keys(app)
        await pilot.press("enter")
        await until(lambda: "space Pause  x Stop" in keys(app), pilot)
        assert "Replay" not in keys(app)
        await press(pilot, "x")
        assert "Stop" not in keys(app)
        pane.runs = [{"run_id": "r1", "gpu": "H200", "device": "cuda:0", "cache": "cold", "started": "2026-11-21"}]
        await press(pilot, "l")
        assert "Results of r1" in text_of(app)
        assert "Replay" not in keys(app)
        assert "12 runs" not in text_of(app)

    run(database, flow, fake(WAITS))


@pytest.mark.parametrize(("first", "said"), [("replay", "power in W"), ("kernel", "no durations")])
def test_nothing_is_said_before_it_is_known(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch, first: str, said: str
) -> None:
    async def never(_self: Store, _attempt: Any) -> None:
        await asyncio.Event().wait()

    async def flow() -> None:
        app = KerneldbApp(trace_database, first=first, watch=False)
        async with app.run_test(size=(120, 30)) as pilot:
            await pilot.pause()
            assert app.pane.state == "loading"
            assert said not in text_of(app)

    monkeypatch.setattr(Store, "_retried", never)
    asyncio.run(flow())


def test_why_no_replay_can_run_is_shown(database: Path) -> None:
    """What libraries print before is no event."""

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "enter")
        assert "no CUDA device" in text_of(app)
        assert not pane_of(app).is_running
        assert "p shows the plan" in text_of(app)
        await press(pilot, "escape")
        assert pane_of(app).view == "plan"
        assert "no CUDA device" in text_of(app)
        assert "enter replays" in text_of(app)
        await press(pilot, "v")
        assert "no CUDA device" not in text_of(app)
        assert "enter replays" in text_of(app)

    run(database, flow, fake("    print('Hello from NCCL')\n    print('[1]')\n    print('3')\n" + FAILS))


@pytest.mark.thorough
def test_a_process_that_dies_leaves_its_last_words(database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "enter")
        assert "no module named torch" in text_of(app)

    run(database, flow, fake(DIES))


def test_nothing_selected_says_so(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert app.pane.state == "empty"
        assert "No launch matches the Selection" in text_of(app)

    run(trace_database, flow, choice=Choice("duration_ns > 1e12"))


@pytest.mark.thorough
def test_a_run_on_the_cpu_is_written_back_and_shown(database: Path) -> None:
    pytest.importorskip("torch")

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await press(pilot, "g", "v", "v", "v", "v", "minus")
        await pilot.press("enter")
        await until(lambda: not pane.is_running, pilot, CPU_S, 0.5)  # each look takes from what is waited for
        await settled(pilot)
        assert pane.view == "results"
        assert pane.progress is not None
        assert pane.progress.done == pane.progress.total > 0
        run_id = pane.runs[0]["run_id"]
        assert pane.results == kerneldb.open(database).replay_results(run_id).rows()
        assert f"Results of {run_id}" in text_of(app)
        assert {entry.text for entry in pane.copies()} == {run_id}
        await press(pilot, "p")
        assert "l shows the last results" in text_of(app)
        await press(pilot, "l", "comma", "full_stop")
        assert pane.view == "results"
        await press(pilot, "escape")
        assert pane.view == "plan"

    run(database, flow, choice=Choice("category = 'GEMM' AND duration_ns > 5600"))


# The process.


def test_a_run_that_is_stopped_while_it_is_planned_did_not_fail(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kerneldb.api.Database, "plan_replay", interrupted)
    code, events = said(Order(str(database)))
    assert (code, [event["event"] for event in events]) == (replay_child.INTERRUPTED, ["stopped"])
    progress = replay_process.Progress()
    progress.take(events[0])
    assert (progress.ended, progress.message) == ("stopped", "stopped before a call was replayed")


@pytest.mark.thorough
def test_a_process_that_is_stopped_before_it_says_a_word_did_not_fail(database: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    command = f"""
        import pathlib, time
        pathlib.Path({str(begun)!r}).touch()
        time.sleep(60)
    """

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await pilot.press("enter")
        await until(begun.exists, pilot)
        await press(pilot, "x")
        assert pane.progress is not None
        assert pane.progress.ended == "stopped"
        assert "calls  stopped" in text_of(app)
        assert "KeyboardInterrupt" not in text_of(app)

    run(database, flow, fake(command))


def said(order: Order) -> tuple[int, list[dict[str, Any]]]:
    sink = io.StringIO()
    code = replay_child.run(order, sink)
    return code, [json.loads(line) for line in sink.getvalue().splitlines()]


def test_the_process_says_what_is_wrong_with_the_order(database: Path, tmp_path: Path) -> None:
    code, events = said(Order(str(database), Request("nme = 'x'")))
    assert (code, events[0]["event"]) == (2, "failed")
    assert "near columns" in events[0]["message"]
    code, events = said(Order(str(tmp_path / "none.duckdb")))
    assert (code, events[0]["event"]) == (3, "failed")
    code, events = said(Order(str(database), resume=True))
    assert (code, "no replay to resume" in events[0]["message"]) == (2, True)


def test_a_broken_pipe_ends_a_run_that_goes_on() -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    events = replay_child._EventWriter(Broken())
    events.write({"event": "end"})
    with pytest.raises(KeyboardInterrupt):
        events.write({"event": "progress", "item": "a"})


def test_progress_adds_up() -> None:
    progress = replay_process.Progress()
    progress.take({"event": "start", "items": 3, "run": "r"})
    progress.take({"event": "progress", "item": "a", "grade": "L4", "done": 1, "total": 3})
    progress.take({"event": "energy", "item": "a", "grade": "L0", "done": 1, "total": 2, "power_w": 300})
    assert (progress.stage, progress.done, progress.total) == ("energy", 1, 2)
    assert progress.bad == [("L4", "a")]
    assert list(progress.readings["power_w"]) == [300]
    assert "sm_mhz" not in progress.readings
    progress.take({"event": "done", "run": "r", "finished": True, "energy_reason": "no meter"})
    assert (progress.ended, progress.message) == ("done", "no energy: no meter")


@pytest.mark.thorough
def test_it_fits_any_terminal(database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "enter")
        for size in ((80, 24), (160, 48), (40, 12)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert max(map(len, text_of(app).splitlines())) <= size[0]
            assert "2 of 4 calls" in text_of(app)

    run(database, flow, fake(TALKS))


def test_a_lake_is_opened_as_it_was_named(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[Any] = []

    def opening(place: Any, **_: Any) -> None:
        named.append(place)
        message = "no lake"
        raise WarehouseMissingError(message)

    monkeypatch.setattr(kerneldb.api, "open", opening)
    lake = "ducklake:postgres:postgresql://u:secret@h/db"
    assert said(Order(lake))[1] == [{"event": "failed", "message": "no lake"}]
    assert named == [lake]


@pytest.mark.thorough
def test_a_stopped_run_is_replaced_when_agreed_only(database: Path) -> None:
    files = Files.beside(database)

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        files.plan.write_text("plan")
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Confirm), pilot)
        await press(pilot, "n")
        assert pane_of(app).progress is None
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Confirm), pilot)
        await press(pilot, "y")
        assert pane_of(app).progress is not None

    run(database, flow, fake(FAILS))


def stopped_run(database: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Files, list[int]]:
    """The files of a run that was stopped, and a list that grows where the calls of a plan are kept."""
    files, kept = Files.beside(database), list[int]()
    files.plan.write_text("plan of a stopped run")
    files.journal.write_text("its journal")
    monkeypatch.setattr(inheriting, "keep", lambda *_: kept.append(1))
    return files, kept


def test_a_replay_without_a_device_leaves_the_stopped_run_and_the_database(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, kept = stopped_run(database, monkeypatch)

    def unusable(*_: Any, **__: Any) -> None:
        assert "stopped" not in files.plan.read_text()
        raise ReplayError(NO_DEVICE)

    monkeypatch.setattr(host, "run", unusable)
    assert said(Order(str(database), Request("category = 'GEMM'")))[1][-1]["message"] == NO_DEVICE
    assert (files.plan.read_text(), files.journal.read_text()) == ("plan of a stopped run", "its journal")
    assert not kept
    assert not files.aside.exists()
    files.put_aside()  # and the process is killed
    assert not files.plan.exists()
    files.take_back()
    assert files.journal.read_text() == "its journal"


def test_a_replay_that_is_stopped_before_its_device_is_ready_leaves_the_stopped_run(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, kept = stopped_run(database, monkeypatch)

    def stopped(*_: Any, listen: Callable[[Mapping[str, Any]], None], **__: Any) -> host.Outcome:
        listen({"event": "start", "items": 4, "settled": 0, "run": "new"})
        assert "stopped" not in files.plan.read_text()
        return host.Outcome(("new",), 4, 0, {}, False, True, 0.5)

    monkeypatch.setattr(host, "run", stopped)
    code, events = said(Order(str(database), Request("category = 'GEMM'")))
    assert (code, events[-1]["event"], events[-1]["finished"]) == (0, "done", False)
    assert (files.plan.read_text(), files.journal.read_text()) == ("plan of a stopped run", "its journal")
    assert (kept, files.aside.exists(), files.resumable) == ([], False, True)


def test_a_run_that_was_put_aside_when_its_successor_was_killed_can_go_on(database: Path) -> None:
    files = Files.beside(database)

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert not pane.resumable
        files.plan.write_text("plan")
        files.put_aside()
        assert pane.resumable
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Confirm), pilot)
        await press(pilot, "n")

    run(database, flow, fake(FAILS))
