"""A timeline of everything from the stored bins of long traces: the same as from their launches."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.api import timeline
from kerneldb.selection import Selection
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.warehouse import Warehouse, commit
from tests.tui.piloting import driven, opened, press
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable

FEWEST, BINS = 1_000, 512
pytestmark = pytest.mark.thorough
LENGTH = 3_000_000


def launches_of(seed: int, n: int, length: int) -> tuple[Launch, ...]:
    """Launches at random places: short ones, some that take no time, and some across many bins."""
    chance = random.Random(seed)
    made = [Launch("Memset", seed, 0)]
    for _ in range(n - 1):
        name, longest = chance.choice([("gemm", 9_000), ("add", 300), ("nccl", 200_000), ("Memset", 0)])
        made.append(Launch(name, seed + chance.randrange(length), chance.randint(0, longest), chance.choice([7, 20])))
    return tuple(sorted(made, key=lambda launch: launch.start))


@pytest.fixture(scope="module")
def long_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two long traces of unlike lengths, and a short one. Read only."""
    folder = tmp_path_factory.mktemp("long")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commit, "FEWEST_BINNED", FEWEST)
        patched.setattr(commit, "BINS", BINS)
        warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
        warehouse.commit(make("long", launches_of(1, 3_000, LENGTH)))
        warehouse.commit(make("half", launches_of(70_000, 1_500, LENGTH // 2)))
        warehouse.commit(make("short", launches_of(3, 200, LENGTH // 5)))
    return warehouse.path


def ask(path: Path, work: Callable[[Any], Any]) -> Any:
    with Warehouse(path).connection() as con:
        return work(con)


def scanned(path: Path, axis: timeline.Axis, stretch: timeline.Stretch) -> timeline.Seen:
    """What the launches themselves say."""
    bare = dataclasses.replace(axis, traces=tuple(dataclasses.replace(one, bin_ns=None) for one in axis.traces))
    found = ask(path, lambda con: timeline.lanes(con, bare, Selection(), stretch))
    assert isinstance(found, timeline.Seen)
    return found


@pytest.mark.parametrize(("traces", "columns"), [((), 1), ((), 13), (("long",), 20), (("half", "short"), 7)])
def test_stored_bins_say_what_the_launches_say(long_traces: Path, columns: int, traces: tuple[str, ...]) -> None:
    axis = ask(long_traces, lambda con: timeline.axis(con, traces))
    stretch = axis.stretch(0, axis.end_ns, columns)
    assert len(axis.stored(stretch)) == len([one for one in axis.traces if one.trace != "short"])

    found = ask(long_traces, lambda con: timeline.lanes(con, axis, Selection(), stretch))
    assert found == scanned(long_traces, axis, stretch)
    assert found.launches == sum(one.busy for one in counted(long_traces, axis))


@dataclasses.dataclass(frozen=True)
class Counted:
    """How many launches a trace has on the axis."""

    trace: str
    busy: int


def counted(path: Path, axis: timeline.Axis) -> list[Counted]:
    names = [one.trace for one in axis.traces]
    sql = "SELECT name, launches FROM traces WHERE list_contains($names::VARCHAR[], name)"
    return [Counted(*row) for row in ask(path, lambda con: con.execute(sql, {"names": names}).fetchall())]


def test_a_bin_is_a_power_of_two_and_a_trace_has_enough_of_them(long_traces: Path) -> None:
    axis = ask(long_traces, lambda con: timeline.axis(con, ()))
    widths = {one.trace: (one.last_ns - one.first_ns, one.bin_ns) for one in axis.traces}
    assert widths["short"][1] is None
    for length, width in (widths["long"], widths["half"]):
        assert width is not None
        assert width.bit_count() == 1
        assert BINS / 2 < length / width <= BINS


@pytest.mark.parametrize("columns", [2, 15, 20, 40, 400])
def test_everything_stands_on_the_axis_and_little_beside_it(long_traces: Path, columns: int) -> None:
    axis = ask(long_traces, lambda con: timeline.axis(con, ()))
    stretch = axis.stretch(0, axis.end_ns, columns)
    assert stretch.last_ns >= axis.end_ns
    assert stretch.last_ns - axis.end_ns <= max(axis.end_ns / timeline.LEAST_GRAINS, columns)
    assert stretch.bins == columns


def test_a_part_of_the_axis_is_read_from_launches(long_traces: Path) -> None:
    axis = ask(long_traces, lambda con: timeline.axis(con, ()))
    for first, last in ((0, axis.end_ns // 2), (1, axis.end_ns), (4_096, axis.end_ns)):
        stretch = axis.stretch(first, last, 20)
        assert axis.stored(stretch) == ()
        assert stretch == timeline.Stretch.of(first, last, 20)


def test_traces_on_one_clock_are_read_from_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FEWEST_BINNED", 10)
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    clock: dict[str, Any] = {"stated_run": "job", "clock": "epoch"}
    warehouse.commit(make("rank0", launches_of(1, 100, 10_000), rank=0, base_ns=1_001, **clock))
    warehouse.commit(make("rank1", launches_of(2, 100, 10_000), rank=1, base_ns=1_776, **clock))

    axis = ask(warehouse.path, lambda con: timeline.axis(con, ()))
    assert axis.aligned
    assert all(one.bin_ns for one in axis.traces)
    stretch = axis.stretch(0, axis.end_ns, 20)
    assert stretch == timeline.Stretch.of(0, axis.end_ns, 20)
    seen = ask(warehouse.path, lambda con: timeline.lanes(con, axis, Selection(), stretch))
    assert seen == scanned(warehouse.path, axis, stretch)


def test_the_screen_shows_the_same_with_and_without_a_condition(long_traces: Path) -> None:
    seen: list[tuple[timeline.Seen, timeline.Stretch | None]] = []

    async def flow() -> None:
        for where in ("", "duration_ns >= 0"):
            async with opened(long_traces, Choice(where=where), size=(80, 24)) as (app, pilot):
                await press(pilot, "4")
                board = app.query_one(TimelinePane).board
                seen.append((board.everything, board.full))

    driven(flow)
    bare, conditioned = seen
    assert bare == conditioned
    assert bare[0].launches == 4_700


def test_a_launch_is_found_in_its_lane_where_another_trace_has_several_processes(tmp_path: Path) -> None:
    """As in a file with traces of one process and of several: lanes then name the process in all of them."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    for name in ("one", "two"):
        warehouse.commit(make(name, (Launch("gemm", 0, 100), Launch("gemm", 200, 100))))
    with warehouse.connection(read_only=False) as con:
        con.execute("UPDATE launches SET process = '11'")
        con.execute("UPDATE launches SET process = '12' WHERE trace_id = 't:two' AND start_ns = 200")
        con.execute("UPDATE devices SET process = '11'")
        con.execute(
            "INSERT INTO devices BY NAME SELECT * REPLACE ('12' AS process) FROM devices WHERE trace_id = 't:two'"
        )

    axis = ask(warehouse.path, lambda con: timeline.axis(con, ()))
    assert [one.processes for one in axis.traces] == [1, 2]
    seen = ask(warehouse.path, lambda con: timeline.lanes(con, axis, Selection(), axis.stretch(0, axis.end_ns, 20)))

    def next_in_lane(con: Any, trace_id: str) -> Any:
        row = timeline.launch(con, Selection(), trace_id, 0)
        assert row is not None
        lane = timeline.lane_of(axis, row)
        assert lane in seen.lanes
        return timeline.neighbour(con, axis, Selection(), lane, timeline.Step("next", 0, 0, 1_000))

    assert ask(warehouse.path, lambda con: next_in_lane(con, "t:one"))["start_ns"] == 200
    assert ask(warehouse.path, lambda con: next_in_lane(con, "t:two")) is None


def test_a_trace_with_a_damaged_clock_is_added_without_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FEWEST_BINNED", 10)
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    late = tuple(Launch("gemm", 1_700_000_000_000_000_000 + number * 10, 5) for number in range(100))
    warehouse.commit(Traces(tmp_path)("long", (Launch("gemm", 0, 5), *late)))

    axis = ask(warehouse.path, lambda con: timeline.axis(con, ()))
    assert (axis.traces[0].bin_ns, axis.end_ns) == (None, late[-1].start + 5)
    seen = ask(warehouse.path, lambda con: timeline.lanes(con, axis, Selection(), axis.stretch(0, axis.end_ns, 80)))
    (bins,) = seen.lanes.values()
    assert {place: (one.busy_ns, one.launches) for place, one in bins.items()} == {0: (5, 1), 79: (500, 100)}


def test_bins_go_with_their_trace_and_follow_new_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FEWEST_BINNED", 10)
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    manifest = make("long", launches_of(1, 100, 10_000))
    warehouse.commit(manifest)
    warehouse.commit(manifest, replace=True)
    bins = "SELECT category, sum(n)::BIGINT FROM timeline_bins GROUP BY ALL ORDER BY ALL"
    before = dict(ask(warehouse.path, lambda con: con.execute(bins).fetchall()))
    assert sum(before.values()) == 100

    # The names of these tests have categories of their own, which a true derivation does not give them.
    warehouse.refresh(everything=True)
    after = dict(ask(warehouse.path, lambda con: con.execute(bins).fetchall()))
    named = "SELECT category, count(*) FROM kernels WHERE start_ns IS NOT NULL GROUP BY ALL ORDER BY ALL"
    assert after == dict(ask(warehouse.path, lambda con: con.execute(named).fetchall()))
    assert set(after) != set(before)

    warehouse.remove(["long"])
    assert ask(warehouse.path, lambda con: con.execute(bins).fetchall()) == []


def test_traces_of_an_older_file_have_an_axis_and_get_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FEWEST_BINNED", 10)
    with pytest.MonkeyPatch.context() as older:
        older.setattr(commit, "bin_up", lambda *_: None)
        warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
        warehouse.commit(Traces(tmp_path)("long", launches_of(5, 100, 10_000)))

    before = ask(warehouse.path, lambda con: timeline.axis(con, ()))
    assert (before.traces[0].first_ns, before.traces[0].bin_ns) == (5, None)
    warehouse.refresh(everything=False)
    after = ask(warehouse.path, lambda con: timeline.axis(con, ()))
    assert after.traces[0].bin_ns == 32
    assert dataclasses.replace(after.traces[0], bin_ns=None) == before.traces[0]


def test_names_of_launches_are_the_same_with_and_without_a_condition(long_traces: Path) -> None:
    axis = ask(long_traces, lambda con: timeline.axis(con, ()))
    stretch = axis.stretch(axis.end_ns // 3, axis.end_ns // 2, 80)

    def named(where: str | None) -> Any:
        return ask(long_traces, lambda con: timeline.labels(con, axis, Selection(where), stretch, 100, 5_000))

    found = named(None), named("true")
    assert found[0] == found[1]
    assert {label.category for label in found[0]} == {"GEMM", "ELEMENTWISE", "COMMUNICATION"}
