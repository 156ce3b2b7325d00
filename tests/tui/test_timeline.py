"""The timeline: its bins against sums made by hand and by the command line, and every key of its screen."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import timeline
from kerneldb.api.timeline import Stretch
from kerneldb.cli import cli
from kerneldb.selection import Selection
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.tui.screens.timeline_data import Board
from kerneldb.tui.screens.timeline_words import facts_of
from kerneldb.tui.widgets import gantt
from kerneldb.tui.widgets.gantt import Cell, Gantt, Name, Picture, Pointer, Row
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kerneldb.tui.app import KerneldbApp

STEPS = tuple(
    launch
    for base in range(0, 40_000, 1_000)
    for launch in (
        Launch("gemm", base + 100, 300, op="aten::mm", phase="forward" if base < 20_000 else "backward"),
        Launch("add", base + 450, 50, op="aten::add", phase="forward" if base < 20_000 else "backward"),
        Launch("nccl", base + 200, 700, stream=20),
    )
)
"""Forty steps of 1 µs on two streams: 350 and 700 ns of each are busy."""


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the trace `steps`. Read only."""
    folder = tmp_path_factory.mktemp("steps")
    warehouse = Warehouse.create_or_open(folder / "k.duckdb")
    warehouse.commit(Traces(folder)("steps", STEPS))
    return warehouse.path


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two ranks of one clock, a profiled trace and one of sums only. Read only."""
    folder = tmp_path_factory.mktemp("several")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    late = tuple(Launch("gemm", launch.start + 7_000, 300) for launch in STEPS[::3])
    clock: dict[str, Any] = {"stated_run": "job", "clock": "epoch"}
    warehouse.commit(make("rank0", STEPS, rank=0, base_ns=10_000, **clock))
    warehouse.commit(make("rank1", late, rank=1, base_ns=12_000, **clock))
    warehouse.commit(make("counted", (Launch("gemm", 0, 500, timing="profiled"),), kind="profiled", source="ncu"))
    report = {"origin": "report", "signature_id": "s:gemm:1:", "timing": "timeline", "n": 3, "total_ns": 300}
    warehouse.commit(make("sums", (Launch("gemm", 0, None),), kind="summary", source="nsys", reports=(report,)))
    return warehouse.path


def ask(path: Path, work: Callable[[Any], Any]) -> Any:
    with Warehouse(path).connection() as con:
        return work(con)


def by_hand(launches: tuple[Launch, ...], stretch: Stretch, shift: int = 0) -> dict[int, list[int]]:
    """Busy ns per stream and bin, launch by launch and bin by bin."""
    found: dict[int, list[int]] = {}
    for launch in launches:
        if launch.duration is None or launch.timing != "timeline":
            continue
        bins = found.setdefault(launch.stream, [0] * stretch.bins)
        begins, ends = launch.start + shift, launch.start + shift + launch.duration
        for place in range(stretch.bins):
            low = stretch.first_ns + place * stretch.step_ns
            bins[place] += max(0, min(ends, low + stretch.step_ns) - max(begins, low))
    return found


@pytest.mark.parametrize(
    ("first", "last", "bins"),
    [(0, 40_000, 80), (0, 40_000, 7), (3_150, 4_820, 33), (500, 510, 10), (39_000, 60_000, 21)],
)
@pytest.mark.parametrize("where", [None, "duration_ns >= 0"])
def test_bins_hold_the_time_that_launches_ran_in_them(
    steps: Path, first: int, last: int, bins: int, where: str | None
) -> None:
    stretch = Stretch.of(first, last, bins)
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    seen = ask(steps, lambda con: timeline.lanes(con, axis, Selection(where), stretch))

    shift = axis.traces[0].shift_ns
    assert shift == -100
    expected = by_hand(STEPS, stretch, shift)
    found = {lane.code // 2: [seen.lanes[lane].get(place) for place in range(bins)] for lane in seen.lanes}
    assert {stream: sum(busy) for stream, busy in expected.items() if sum(busy)} == {
        stream: sum(one.busy_ns for one in row if one) for stream, row in found.items() if any(row)
    }
    for stream, row in found.items():
        assert [one.busy_ns if one else 0 for one in row] == expected[stream]


def test_every_launch_in_view_is_counted_once_and_categories_add_up(steps: Path) -> None:
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    seen = ask(steps, lambda con: timeline.lanes(con, axis, Selection(), Stretch.of(0, axis.end_ns, 13)))

    assert seen.launches == len(STEPS)
    assert seen.categories == {"COMMUNICATION": 28_000, "GEMM": 12_000, "ELEMENTWISE": 2_000}
    leading = {one.category for lane, bins in seen.lanes.items() if lane.code == 14 for one in bins.values()}
    assert leading == {"GEMM"}


def test_a_condition_leaves_launches_out_but_not_the_axis(steps: Path) -> None:
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    selection = Selection("category = 'ELEMENTWISE' AND start_ns < 20000")
    seen = ask(steps, lambda con: timeline.lanes(con, axis, selection, Stretch.of(0, axis.end_ns, 40)))

    assert seen.launches == 20
    assert seen.categories == {"ELEMENTWISE": 1_000}
    assert axis.end_ns == 39_800


def test_phases_have_their_places(steps: Path) -> None:
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    stretch = Stretch.of(0, 40_000, 4)
    found = ask(steps, lambda con: timeline.names(con, axis, Selection(), stretch))
    assert {place: one.category for place, one in found.phases[0].items()} == {
        0: "forward", 1: "forward", 2: "backward", 3: "backward"
    }  # fmt: skip
    assert found.modules == {}


def test_ranks_of_one_clock_keep_their_distance(several: Path) -> None:
    axis = ask(several, lambda con: timeline.axis(con, ("rank0", "rank1")))
    assert axis.aligned
    assert [(one.trace, one.first_ns + one.shift_ns) for one in axis.traces] == [("rank0", 0), ("rank1", 9_000)]

    stretch = Stretch.of(0, axis.end_ns, 20)
    seen = ask(several, lambda con: timeline.lanes(con, axis, Selection(), stretch))
    first = {lane.number: min(bins) for lane, bins in seen.lanes.items()}
    assert first == {0: 0, 1: 9_000 // stretch.step_ns}


def test_traces_without_a_timeline_say_why(several: Path) -> None:
    axis = ask(several, lambda con: timeline.axis(con, ("counted", "sums")))
    assert axis.traces == ()
    reasons = dict(axis.left_out)
    assert "counter profiler" in reasons["counted"]
    assert "sums only" in reasons["sums"]


def test_neighbours_are_found_near_and_far(steps: Path) -> None:
    axis = ask(steps, lambda con: timeline.axis(con, ()))
    lane = timeline.Lane(0, None, 0, 14)

    def from_first(direction: timeline.Direction, reach: int, signature: str | None = None) -> int | None:
        step = timeline.Step(direction, 20_100, 60, reach, signature)
        found = ask(steps, lambda con: timeline.neighbour(con, axis, Selection(), lane, step))
        return None if found is None else int(found["start_ns"])

    assert from_first("next", 1_000) == 20_450
    assert from_first("next", 1, "s:gemm:1:aten::mm") == 21_100
    assert from_first("previous", 1_000) == 19_450
    assert from_first("previous", 1_000, "s:gemm:1:aten::mm") == 19_100
    last = timeline.Step("next", 39_450, 10_000, 10)
    assert ask(steps, lambda con: timeline.neighbour(con, axis, Selection(), lane, last)) is None


def test_launches_of_another_print_of_a_trace_are_told_of(root: Path, tmp_path: Path) -> None:
    """The timeline draws them, though `kernels` counts each launch once."""
    content = gzip.decompress((root / "tests" / "fixtures" / "compiled-graph-h200.json.gz").read_bytes())
    database = kerneldb.open(tmp_path / "k.duckdb")
    for name, end in (("first", b""), ("again", b" ")):
        (tmp_path / f"{name}.json").write_bytes(content + end)
        database.ingest(tmp_path / f"{name}.json", name=name)
    (repeat,) = database.sql(
        "SELECT trace_id, max(launch_index) AS launch_index, arg_max(signature_id, launch_index) AS signature_id "
        "FROM all_launches WHERE trace_id NOT IN (SELECT trace_id FROM kernels) GROUP BY trace_id"
    ).rows()
    found = ask(
        tmp_path / "k.duckdb",
        lambda con: timeline.launch(con, Selection(), repeat["trace_id"], repeat["launch_index"]),
    )
    assert found is not None
    assert {key: found[key] for key in repeat} == repeat


# The command line and the screen.


def printed(path: Path, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["--db", str(path), *arguments, "--json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.mark.parametrize("where", [pytest.param(None, marks=pytest.mark.volume), "category IN ('GEMM', 'COPY')"])
def test_lanes_and_legend_are_what_the_command_line_prints(trace_database: Path, where: str | None) -> None:
    condition = ["--where", where] if where else []

    async def flow() -> None:
        async with opened(trace_database, Choice(where or ""), first="timeline") as (app, _):
            pane = timeline_of(app)
            streams = printed(trace_database, "top", "--by", "stream", *condition)
            busy = {
                lane.code // 2: sum(one.busy_ns for one in bins.values())
                for lane, bins in pane.board.view.lanes.items()
                if lane.code is not None
            }
            assert busy == {int(row["stream"]): row["total_ns"] for row in streams}
            categories = printed(trace_database, "top", "--by", "category", *condition)
            assert dict(pane.board.view.categories) == {row["category"]: row["total_ns"] for row in categories}
            assert pane.board.view.launches == sum(row["n"] for row in streams)

    driven(flow)


def timeline_of(app: KerneldbApp) -> TimelinePane:
    pane = app.pane
    assert isinstance(pane, TimelinePane)
    return pane


def run(path: Path, flow: Callable[[KerneldbApp, Any], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def whole() -> None:
        async with opened(path, options.get("choice"), first="timeline", size=(100, 30)) as (
            app,
            pilot,
        ):
            await flow(app, pilot)

    driven(whole)


async def presses(pilot: Any, *keys: str) -> None:
    """Press keys as fast as they come; only what the last ones ask for is waited for."""
    await pilot.press(*keys)
    await settled(pilot)


@pytest.mark.thorough
def test_zoom_keeps_the_time_under_the_cursor(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane, chart = timeline_of(app), app.query_one(Gantt)
        await presses(pilot, *["right"] * 8)
        column, cursor = chart.pointer.column, pane.cursor_ns
        await presses(pilot, "w", "w", "plus")
        assert pane.last_ns - pane.first_ns == pytest.approx(39_800 / 8, rel=0.05)
        assert pane.cursor_ns == cursor
        assert abs(chart.pointer.column - column) <= 1
        await presses(pilot, "s", "minus", "s", "s")
        assert (pane.first_ns, pane.last_ns) == (0, 39_800)
        await presses(pilot, "w", "w", "0")
        assert (pane.first_ns, pane.last_ns) == (0, 39_800)

    run(steps, flow)


def test_pan_and_edges_stay_on_the_axis(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        await presses(pilot, "w", "w")
        span = pane.last_ns - pane.first_ns
        await press(pilot, "a")
        assert pane.first_ns == 0
        await presses(pilot, "d", "d")
        assert pane.first_ns == pytest.approx(span / 2, abs=2)
        await press(pilot, "end")
        assert pane.last_ns == pane.axis.end_ns
        await presses(pilot, "d", "shift+right")
        assert pane.last_ns == pane.axis.end_ns
        await press(pilot, "home")
        assert (pane.first_ns, pane.cursor_ns) == (0, 0)

    run(steps, flow)


def test_the_cursor_walks_columns_lanes_and_launches(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        assert pane.lane is not None
        assert pane.lane.label == "s7"
        await press(pilot, "down")
        assert pane.lane.label == "s20"
        assert "nccl" in text_of(app)
        await presses(pilot, "down", "up", "up", "k")
        assert pane.lane.label == "s7"
        await press(pilot, "full_stop", "full_stop")
        assert pane.launch is not None
        assert (pane.launch["name"], pane.launch["start_ns"]) == ("gemm<float>(int)", 1_100)
        await press(pilot, "n")
        assert pane.launch["start_ns"] == 2_100
        await press(pilot, "comma")
        assert pane.launch["start_ns"] == 1_450
        await press(pilot, "N")
        assert pane.launch["start_ns"] == 450
        await press(pilot, "comma", "comma")
        assert "No further launch" in "".join(str(note.message) for note in app._notifications)

    run(steps, flow)


def test_fit_shows_the_launch_with_its_name(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        await press(pilot, "full_stop", "n", "f")
        assert pane.last_ns - pane.first_ns < 8 * 300 + 100
        lane = next(line for line in text_of(app).splitlines() if " gemm " in line)
        assert "add" not in lane.split("gemm")[0].strip()
        await press(pilot, "escape")
        assert (pane.first_ns, pane.last_ns) == (0, pane.axis.end_ns)

    run(steps, flow)


def test_measuring_and_the_range_as_condition(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        step = pane._stretch(0, pane.axis.end_ns).step_ns
        await presses(pilot, *["right"] * 4, "m", *["right"] * 10)
        assert f"measured {10 * step / 1000:.2f} µs" in text_of(app)
        assert "━" * 9 in text_of(app)
        await press(pilot, "v")
        assert app.choice.where == f"start_ns BETWEEN {4 * step + 100} AND {14 * step + 100}"
        assert pane.board.view.launches == len([one for one in STEPS if 4 * step + 100 <= one.start <= 14 * step + 100])
        await presses(pilot, "m", "right", "right", "f")
        assert pane.last_ns - pane.first_ns < 10 * step
        await press(pilot, "escape")
        assert pane.mark_ns is None

    run(steps, flow)


@pytest.mark.thorough
def test_a_range_of_one_of_several_traces_names_it(several: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "v")
        assert app.choice.where.startswith("trace = 'rank0' AND (start_ns BETWEEN")

    run(several, flow, choice=Choice(traces=("rank0", "rank1")))


def test_a_pinned_lane_is_on_top(several: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        await presses(pilot, "down", "down", "p")
        assert pane.track is not None
        assert pane.board.pinned == ()
        await presses(pilot, "down", "p")
        assert pane.board.lanes[0] == pane.lane
        assert "▸⚑s7 " in text_of(app)
        await press(pilot, "p")
        assert pane.board.pinned == ()

    run(several, flow, choice=Choice(traces=("rank0", "rank1")))


def test_pinned_lanes_of_several_processes_are_told_apart() -> None:
    trace = timeline.Placed("two", "t:two", 0, 100, 0, processes=2)
    lanes = [timeline.Lane(0, process, 0, 0) for process in ("115108", "115208")]
    stretch = Stretch.of(0, 100, 10)
    seen = timeline.Seen({lane: {0: timeline.Bin(5, "GEMM", 1)} for lane in lanes})
    before = Board(timeline.Axis((trace,), aligned=False), seen, stretch)
    for lane in lanes:
        before.pin(lane)
    board = Board(before.axis, seen, stretch, before)
    assert [row.label for row in board.picture().rows] == ["⚑s0…108 two", "⚑s0…208 two"]


def test_overlapping_launches_take_no_more_than_all_of_the_time() -> None:
    trace, lane = timeline.Placed("one", "t:one", 0, 100, 0), timeline.Lane(0, None, 0, 14)
    seen = timeline.Seen({lane: {0: timeline.Bin(246, "GEMM", 3)}})
    board = Board(timeline.Axis((trace,), aligned=False), seen, Stretch.of(0, 100, 10))
    assert [row.note for row in board.picture().rows if row.kind == "lane"] == ["100 %"]


UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"),
    **dict.fromkeys(("op", "phase", "bytes", "inferred_by", "tflops")),
    "duration_ns": 5,
    "launch_index": 1,
}


@pytest.mark.parametrize(
    ("tflops", "shown"),
    [(0.4123, "0.41 TFLOP/s"), (2.8644, "2.86 TFLOP/s"), (512.3, "512 TFLOP/s"), (0.0016, "1.60 G")],
)
def test_rates_have_three_digits(tflops: float, shown: str) -> None:
    assert shown in "  ".join(facts_of({**UNKNOWN, "tflops": tflops}))


def test_a_grid_is_shown_where_all_of_it_is_known() -> None:
    """Some writers give launches that have no grid its first side."""
    assert facts_of({**UNKNOWN, "grid_x": 1, "block_x": 64, "block_y": 2, "block_z": 1}) == [
        "lasts 5 ns", "block 64×2×1", "launch 1",
    ]  # fmt: skip


def test_enter_opens_the_kernel_and_the_timeline_jumps_to_it(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = timeline_of(app)
        await press(pilot, "enter")
        assert app.signature == "s:gemm:1:aten::mm"
        app.signature = "s:add:1:aten::add"
        app.show("timeline")
        await settled(pilot)
        assert pane.launch is not None
        assert pane.launch["start_ns"] == 450
        assert pane.last_ns - pane.first_ns < 1_000

    run(steps, flow)


def test_a_click_puts_the_cursor_there_and_the_wheel_changes_lanes(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane, chart = timeline_of(app), app.query_one(Gantt)
        await pilot.click(Gantt, offset=(chart.label_width + 30, chart.size.height - 1 if chart.size.height < 9 else 8))
        await settled(pilot)
        assert chart.pointer.column == 30
        chart.post_message(Gantt.Turned(1))
        await settled(pilot)
        assert pane.lane is not None
        assert pane.lane.label == "s20"

    run(steps, flow)


def test_what_has_no_timeline_says_so(several: Path) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert app.pane.state == "empty"
        assert "counted: launches ran one by one under a counter profiler" in " ".join(text_of(app).split())

    run(several, flow, choice=Choice(traces=("counted", "sums")))


@pytest.mark.thorough
def test_nothing_selected_says_so_and_all_comes_back(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        app.choose(where="duration_ns > 1e9")
        await settled(pilot)
        assert "No launch of the Selection has times" in text_of(app)
        app.choose(where="")
        await settled(pilot)
        assert app.pane.state == "ready"
        assert "120 launches" in text_of(app)

    run(steps, flow)


def test_it_fits_any_terminal(several: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await presses(pilot, "w", "down", "down")
        for size in ((80, 24), (160, 48), (40, 12)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            lines = text_of(app).splitlines()
            assert len(lines) == size[1]
            assert max(map(len, lines)) <= size[0]
            assert any("▸" in line for line in lines)
            assert timeline_of(app).board.stretch == timeline_of(app)._stretch(
                timeline_of(app).first_ns, timeline_of(app).last_ns
            )

    run(several, flow, choice=Choice(traces=("rank0", "rank1")))


# The picture.


def test_ticks_stand_at_round_times_and_do_not_meet() -> None:
    for first, last in ((0, 7_500_000_000), (123_456, 127_000), (5, 60), (999_990, 1_000_010)):
        marks = gantt.ticks(first, last, 120)
        columns = [column for column, _ in marks]
        assert all(after - before >= gantt.TICK - 1 for before, after in itertools.pairwise(columns))
        assert len({label for _, label in marks}) == len(marks)


@pytest.mark.parametrize(
    ("first", "last"), [(10**18 + 999_980_000, 10**18 + 10**9), (10**9, 1_763_500_000 * 10**9), (0, 10**9)]
)
def test_long_times_keep_clear_of_each_other(first: int, last: int) -> None:
    for width in (10, 64, 104, 300):
        marks = gantt.ticks(first, last, width)
        assert marks or width < 2 * len(gantt.clock(last, 1))
        assert all(after > column + 1 + len(label) for (column, label), (after, _) in itertools.pairwise(marks))


@pytest.mark.parametrize(
    ("ns", "step", "text"),
    [
        (1_763_499_999_999_980_005, 5, "1,763,499,999.999980005 s"),
        (0, 5, "0 ns"),
        (1_500_000, 500_000, "1.5 ms"),
        (2_000_000_000, 10**9, "2 s"),
        (1_234, 1, "1.234 µs"),
        (900, 1, "900 ns"),
    ],
)
def test_times_have_the_digits_that_tell_them_apart(ns: int, step: int, text: str) -> None:
    assert gantt.clock(ns, step) == text


def test_a_label_that_fills_its_room_keeps_a_blank_before_the_note(steps: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        chart = app.query_one(Gantt)
        chart.show(
            Picture([Row("counter", " allocated, cuda 0 and more", "101 MB")], 0, 100, 100, [1.0]), Pointer(0, 0)
        )
        await pilot.pause()
        shown = chart.render_line(2).text[: chart.label_width]
        assert shown.endswith(" 101 MB ")
        assert len(shown) == chart.label_width

    run(steps, flow)


def test_names_never_overprint_and_bars_have_their_height(steps: Path) -> None:
    row = Row(
        "lane", "s7", "50 %", {0: Cell(1.0, "GEMM"), 1: Cell(0.5, "GEMM"), 2: Cell(0.0, "COPY")},
        [Name(10, 22, "a_long_kernel_name", "GEMM"), Name(20, 30, "behind", "COPY"), Name(40, 42, "thin", None)],
    )  # fmt: skip

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        chart = app.query_one(Gantt)
        chart.show(Picture([row], 0, 100, 100, [1.0]), Pointer(0, 60))
        await pilot.pause()
        shown = "\n".join(chart.render_line(line).text[chart.label_width :] for line in range(2, 2 + gantt.MOST_LINES))
        assert " a_long_ke… " in shown
        assert "behind" not in shown
        assert "thin" not in shown
        lowest = chart.render_line(1 + gantt.MOST_LINES).text[chart.label_width :]
        assert lowest[:3] == "██▁"
        assert chart.render_line(2).text[chart.label_width] == "█"

    run(steps, flow)
