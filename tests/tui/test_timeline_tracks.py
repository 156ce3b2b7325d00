"""What stands beside the launches of a timeline: the host, idle times, counters, the critical path, ways between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual import events
from textual.containers import VerticalScroll

import kerneldb
from kerneldb.api import timeline, tracks
from kerneldb.api.critical import critical_path
from kerneldb.tui.dialogs import Page
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import timeline_tracks, timeline_words
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.tui.widgets.gantt import Gantt, _named
from tests.conftest import made_once
from tests.tui.piloting import driven, opened, press, settled, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="session")
def stacks(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step with Python stacks and memory, `step`. Read only."""
    trace = root / "tests" / "fixtures" / "stacks-memory-h200.json.gz"
    return made_once(tmp_path_factory, "stacks.duckdb", lambda path: kerneldb.open(path).ingest(trace, name="step"))


def asked(path: Path, sql: str) -> list[dict[str, Any]]:
    return kerneldb.open(path, create=False).sql(sql).rows()


def run(path: Path, flow: Callable[[KerneldbApp, TimelinePane, Any], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with opened(path, Choice(), first="timeline", size=(120, 40)) as (app, pilot):
            pane = app.pane
            assert isinstance(pane, TimelinePane)
            await flow(app, pane, pilot)

    driven(whole)


def test_threads_of_no_known_process_come_last() -> None:
    axis = timeline.Axis((timeline.Placed("made", "t:made", 0, 100, 0),), aligned=False)
    held = timeline_tracks.Tracks(axis)
    held.add({tracks.Track(0, "operators", process, "0"): tracks.Line() for process in (None, "-1", "19392")})
    headers = [row.label for row, _ in held.of_hosts() if row.kind == "header"]
    assert [label.split(" · ")[2] for label in headers] == ["process 19392", "no process", "process ?"]


USERS_LINE = "record.py(103): step"
"""The one line of the recorded program that calls PyTorch: all else of its stacks is PyTorch, or calls that line."""
LONGEST = """SELECT g.*, l.python_line, l.api_call, l.launch_start_ns AS call_ns FROM idle_gaps() AS g
INNER JOIN kernels AS l ON l.start_ns = g.gap_end_ns ORDER BY gap_ns DESC LIMIT 2"""


def test_a_column_of_idle_times_shows_how_much_of_it_is_idle() -> None:
    """Ten columns of 100 ns: what is idle for little of its column is blank, half of it has the letter of its cause."""
    held = timeline_tracks.Tracks(timeline.Axis((timeline.Placed("t", "t:0", 0, 1000, 0),), aligned=False))
    track = tracks.Track(0, "idle", device=0)
    times = [(0, 5), (110, 130), (150, 160), (220, 260), (270, 290), (360, 620), (700, 705), (750, 850)]
    causes = ["launching", "launching", "dependency", "launching", "dependency", "dependency", "launching", "launching"]
    gaps = [tracks.Event(*time, cause) for time, cause in zip(times, causes, strict=True)]
    held.paint(timeline.Stretch(0, 100, 10))
    held.add({track: tracks.Line(gaps)})
    ((row, _),) = held.of_device(0, 0)
    shown = {column: (cell.share, cell.category) for column, cell in row.cells.items()}
    assert shown == {
        1: (0.3, "launching"), 2: (1, "launching"), 3: (0.4, "dependency"),
        4: (1, "dependency"), 5: (1, "dependency"), 6: (0.2, "dependency"), 7: (1, "launching"), 8: (1, "launching"),
    }  # fmt: skip
    assert row.cells[4].event == row.cells[5].event, "one span, which has a name where there is room"
    assert row.cells[7].event == row.cells[8].event


def test_threads_that_launched_what_is_selected_come_first() -> None:
    """Else those of other traces would push them off the screen."""
    placed = tuple(timeline.Placed(name, f"{name}:0", 0, 100, 0) for name in ("one", "two", "three"))
    held = timeline_tracks.Tracks(timeline.Axis(placed, aligned=False))
    event = tracks.Event(0, 10, "cudaLaunchKernel")
    held.add({tracks.Track(number, "API calls", "1", "1"): tracks.Line([event]) for number in range(3)})
    names = [row.label.split(" · ")[0] for row, _ in held.of_hosts({1}) if row.kind == "header"]
    assert names == ["two", "one", "three"]


def test_every_event_of_the_host_is_seen_or_summed(stacks: Path) -> None:
    async def flow(_app: KerneldbApp, pane: TimelinePane, _pilot: Any) -> None:
        lines = {track: line for track, line in pane.board.tracks.lines.items() if track.kind in tracks.HOST}
        assert {track.kind for track in lines} == set(tracks.HOST)
        found = await pane.store.read(tracks.within, pane.axis, next(iter(lines)), (0, pane.axis.end_ns))
        assert found  # however short
        everything = await pane.store.read(tracks.host, pane.axis, pane._stretch(0, pane.axis.end_ns), 0, sums=False)
        shift = pane.axis.traces[0].shift_ns
        (expected,) = asked(
            stacks,
            "SELECT count(*) AS n, sum(duration_ns) AS ns FROM api_calls "
            f"WHERE start_ns + duration_ns + {shift} >= 0 AND start_ns + {shift} < {pane.axis.end_ns}",
        )
        calls = [one for track, line in everything.items() if track.kind == "API calls" for one in line.events]
        assert (len(calls), sum(one.ends_ns - one.begins_ns for one in calls)) == (expected["n"], expected["ns"])
        for track, line in everything.items():  # an event is inside of those above it
            for outer, inner in zip(line.events, line.events[1:], strict=False):
                assert inner.depth <= outer.depth + 1, track

    run(stacks, flow)


def test_from_the_largest_gap_to_operator_and_python_line_in_one_key_and_to_the_call_in_two(stacks: Path) -> None:
    first, second = asked(stacks, LONGEST)

    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        shift = pane.axis.traces[0].shift_ns
        await press(pilot, "g")
        shown = text_of(app)
        assert first["next_op"] in shown
        assert f"{USERS_LINE} → {first['python_line']}" in shown
        assert f"idle: {first['cause']}" in shown
        assert pane.cursor_ns == first["gap_start_ns"] + shift
        await press(pilot, "c")
        assert pane.track is not None
        assert pane.track.kind == "API calls"
        assert pane.cursor_ns == first["call_ns"] + shift
        shown = text_of(app)
        assert first["api_call"] in shown
        assert f"in {first['next_op']} · Optimizer.step#SGD.step" in shown
        assert f"{USERS_LINE} → {first['python_line']}" in shown
        await press(pilot, "g", "G")
        assert pane.cursor_ns == second["gap_start_ns"] + shift
        assert second["next_op"] in text_of(app)

    run(stacks, flow)


@pytest.mark.parametrize(("frame", "line", "width", "shown"), [
    ("", "", 80, ""),
    ("torch/a.py(3): g", "", 80, "torch/a.py(3): g"),
    ("u.py(1): f", "u.py(1): f", 80, "u.py(1): f"),
    ("torch/a.py(3): g", "u.py(1): f", 80, "u.py(1): f → torch/a.py(3): g"),
    ("torch/a.py(3): g", "/home/u/work/train.py(117): training_step", 31, "…k/train.py(117): training_step"),
    ("/site/torch/nn/modules/linear.py(130): forward", "u.py(1): f", 40, "u.py(1): f → …es/linear.py(130): forward"),
])  # fmt: skip
def test_the_line_of_the_user_keeps_its_end(frame: str, line: str, width: int, shown: str) -> None:
    around = {"frame": frame or None, "line": line or None, "is_forward": False}
    assert timeline_words.program_line(around, width) == shown
    assert len(timeline_words.program_line({**around, "is_forward": True}, width)) <= width


def test_a_launch_of_autograd_names_the_module_and_the_line_of_its_forward_call(stacks: Path) -> None:
    backward = "SELECT launch_index FROM kernels WHERE op = 'aten::mm' AND phase = 'backward' ORDER BY 1 LIMIT 1"

    async def flow() -> None:
        (row,) = asked(stacks, backward)
        condition = f"launch_index = {row['launch_index']}"
        async with opened(stacks, Choice(condition), first="timeline", size=(120, 40)) as (app, pilot):
            await press(pilot, "full_stop")
            shown = text_of(app)
            assert "aten::mm · Linear_1 · backward" in shown
            assert f"backward of {USERS_LINE} → torch/nn/modules/linear.py(130): forward" in shown
            await press(pilot, "c")
            assert "in aten::mm · Linear_1 · backward" in text_of(app)
            assert f"backward of {USERS_LINE}" in text_of(app)

    driven(flow)


def test_frames_of_files_lose_their_begin_and_what_is_built_in_its_end() -> None:
    assert _named("torch/nn/modules/linear.py(130): forward", 24, "", frame=True) == "…linear.py(130): forward"
    assert _named("<built-in function linear>", 12, "", frame=True) == "<built-in f…"


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_from_the_overview_the_largest_gap_its_cause_and_its_call_are_three_keys_away(
    stacks: Path, size: tuple[int, int]
) -> None:
    first, _ = asked(stacks, LONGEST)

    async def flow() -> None:
        async with opened(stacks, size=size) as (app, pilot):
            await press(pilot, "4", "g")
            assert first["next_op"] in text_of(app)
            assert f"{USERS_LINE} → {first['python_line']}" in text_of(app)
            await press(pilot, "c")
            assert isinstance(app.pane, TimelinePane)
            assert app.pane.track is not None
            shown = text_of(app)
            assert (app.pane.track.kind, first["api_call"] in shown, USERS_LINE in shown) == ("API calls", True, True)

    driven(flow)


def test_in_a_large_trace_the_cause_is_looked_up_when_the_gap_is_gone_to(
    stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _) = asked(stacks, LONGEST)
    monkeypatch.setattr(tracks, "MOST_CAUSES", 0)
    monkeypatch.setattr(tracks, "MOST_SUMMED", 0)

    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        assert not any(track.kind == "idle" for track in pane.board.tracks.lines)
        await press(pilot, "g")
        assert pane.cursor_ns == first["gap_start_ns"] + pane.axis.traces[0].shift_ns
        assert f"idle: {first['cause']}" in text_of(app)
        assert first["next_op"] in text_of(app)

    run(stacks, flow)


def test_from_a_kernel_to_its_call_in_one_key_and_back(stacks: Path) -> None:
    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        await press(pilot, *["full_stop"] * 4)
        launch = pane.launch
        assert launch is not None
        chart = app.query_one(Gantt)
        assert chart.pointer.linked is not None  # an arrow leads to the row of the call
        row, _ = chart.pointer.linked
        stop = pane.board.stop_at(row)
        assert isinstance(stop, tracks.Track)
        assert (stop.kind, stop.thread) == ("API calls", launch["caller"]["thread"])
        assert "◆" in text_of(app)
        await press(pilot, "c")
        assert pane.track == stop
        assert pane.cursor_ns == launch["launch_start_ns"] + pane.axis.traces[0].shift_ns
        assert launch["api_call"] in text_of(app)
        assert "launched 1 activity" in text_of(app)
        await press(pilot, "c")
        assert pane.track is None
        assert pane.launch is not None
        assert pane.launch["launch_index"] == launch["launch_index"]

    run(stacks, flow)


def test_a_range_has_its_own_table_and_budget(stacks: Path) -> None:
    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        span = pane.axis.stretch(0, pane.axis.end_ns, 1)
        rows = await pane.store.read(tracks.summed, pane.axis, span, 1_000)
        (expected,) = asked(stacks, "SELECT count(*) AS n, sum(duration_ns) AS ns FROM kernels")
        launches = [row for row in rows if row["kind"] == "GPU"]
        assert sum(row["n"] for row in launches) == expected["n"]
        assert sum(row["total_ns"] for row in launches) == expected["ns"]
        await press(pilot, "b")
        page = app.screen
        assert isinstance(page, Page)
        text = page._text.splitlines()
        seen = page.query_one(VerticalScroll).scrollable_content_region
        assert any("…" in line for line in text)
        assert max(map(len, text)) <= seen.width, "a line is broken"
        idle = asked(stacks, "SELECT cause, sum(gap_ns) AS ns FROM idle_gaps() GROUP BY cause ORDER BY ns DESC")
        lines = [line for line in text if line.startswith("idle")]
        assert all(line.endswith(row["cause"]) for line, row in zip(lines, idle, strict=True))
        share = 100 * idle[0]["ns"] / pane.axis.end_ns
        assert f"{share:.1f}" in next(line for line in text if line.startswith("idle"))

    run(stacks, flow)


def test_search_walks_through_all_kinds_of_events(stacks: Path) -> None:
    (first, second) = asked(stacks, "SELECT start_ns FROM ops WHERE name = 'aten::addmm' ORDER BY start_ns LIMIT 2")

    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        shift = pane.axis.traces[0].shift_ns
        await press(pilot, "ctrl+f", *"addmm", "enter")
        assert pane.track is not None
        assert pane.track.kind == "operators"
        assert pane.cursor_ns == first["start_ns"] + shift
        await press(pilot, "n")
        assert pane.cursor_ns == second["start_ns"] + shift
        await press(pilot, "N")
        assert pane.cursor_ns == first["start_ns"] + shift
        await press(pilot, "ctrl+f", *"gemm", "enter")
        assert pane.track is None
        assert pane.launch is not None
        assert "gemm" in pane.launch["name"]
        await press(pilot, "ctrl+f", *"nowhere", "enter")
        assert any("nowhere" in str(note.message) for note in app._notifications)

    run(stacks, flow)


def test_the_critical_path_is_painted_and_levels_open(stacks: Path) -> None:
    database = kerneldb.open(stacks, create=False)
    steps = critical_path(database.warehouse, "steps", None, ["step"]).to_pylist()

    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        before = len(pane.board.stops)
        await press(pilot, "P")
        (line,) = [line for track, line in pane.board.tracks.lines.items() if track.kind == "critical path"]
        assert sum(one.ends_ns - one.begins_ns for one in line.events) == sum(one["duration_ns"] for one in steps)
        last = max(line.events, key=lambda one: one.ends_ns)
        assert last.ends_ns == pane.axis.end_ns  # where the last launch ends
        assert "critical" in text_of(app)
        await press(pilot, "x")
        assert len(pane.board.stops) > before + 5
        rows = [stop for stop in pane.board.stops if isinstance(stop, tracks.Track) and stop.kind == "Python"]
        assert [stop.depth for stop in rows] == list(range(len(rows)))

    run(stacks, flow)


def test_the_wheel_zooms_and_dragging_pans(stacks: Path) -> None:
    async def flow(app: KerneldbApp, pane: TimelinePane, pilot: Any) -> None:
        chart = app.query_one(Gantt)
        column = chart.label_width + 40
        at = pane.first_ns + 40 * pane._in_view.step_ns
        scroll = {"delta_x": 0, "delta_y": -1, "button": 0, "shift": False, "meta": False, "ctrl": False}
        chart.post_message(events.MouseScrollUp(chart, column, 5, **scroll))
        await settled(pilot)
        assert pane.last_ns - pane.first_ns == pytest.approx(pane.axis.end_ns / 2, rel=0.02)
        assert pane.cursor_ns == at
        first = pane.first_ns
        await pilot.mouse_down(Gantt, offset=(column, 5))
        await pilot.hover(Gantt, offset=(column - 10, 5))
        await pilot.mouse_up(Gantt, offset=(column - 10, 5))
        await settled(pilot)
        assert pane.first_ns == pytest.approx(first + 10 * pane._in_view.step_ns, abs=2 * pane._in_view.step_ns)

    run(stacks, flow)


def test_narrow_idle_times_show_a_letter_so_that_no_colour_is_needed() -> None:
    assert _named("launching", 1, "l") == "l"
    assert _named("launch latency", 3, "q") == "q──"
    assert _named("forward", 3, "") == "───"
    causes = [*timeline_tracks.IDLE_HUES, *timeline_tracks.LETTERS]
    letters = {timeline_tracks.LETTERS.get(cause, cause[:1]) for cause in causes}
    assert len(letters) == len(set(causes)), "each cause has one of its own"


def test_a_tall_terminal_shows_all_levels_and_higher_lanes(stacks: Path) -> None:
    """Until somebody decides otherwise."""

    async def flow() -> None:
        async with opened(stacks, first="timeline", size=(200, 80)) as (app, pilot):
            pane, chart = app.pane, app.pane.query_one(Gantt)
            assert isinstance(pane, TimelinePane)
            deep = max(stop.depth or 0 for _, stop in pane.board._placed() if isinstance(stop, tracks.Track))
            assert (deep > 0, chart._height > 5, chart.rows_shown()) == (True, True, (0, len(chart.picture.rows)))
            await press(pilot, "x")
            rows = len(chart.picture.rows)
            assert all(not stop.depth for _, stop in pane.board._placed() if isinstance(stop, tracks.Track))
            await press(pilot, "w", "0")
            assert len(chart.picture.rows) == rows

    driven(flow)
